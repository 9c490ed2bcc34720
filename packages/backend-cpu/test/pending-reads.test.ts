import type { ComputeBackend, DeviceHandle } from "@backplane/core";
import { expect } from "chai";
import { createCpuBackend } from "#src/index.js";

/** Tens of milliseconds of work, so that what is asked for next is still pending when a test goes on. */
function keepBusy(backend: ComputeBackend): void {
  const bytes = 1 << 24;
  const handle = backend.alloc(bytes, { zero: false });
  for (let i = 0; i < 20; i++) backend.fill(handle, i, bytes, "u8");
  backend.free(handle);
}

for (const threads of [0, 1, 2, 3]) {
  describe(`Reads of freed memory with ${threads} threads`, () => {
    let backend: ComputeBackend;
    beforeEach(async () => {
      backend = createCpuBackend({ threads });
      await backend.init();
    });
    afterEach(() => backend.dispose());

    const filled = (bytes: number, value: number): DeviceHandle => {
      const handle = backend.alloc(bytes, { zero: false });
      backend.fill(handle, value, bytes, "u8");
      return handle;
    };
    const read = (handle: DeviceHandle, bytes: number) => {
      const destination = new Uint8Array(bytes);
      return { destination, done: backend.copyDtoH(destination, handle) };
    };
    const wrongBytes = ({ destination }: { destination: Uint8Array }, value: number): number =>
      destination.reduce((count, byte) => count + (byte === value ? 0 : 1), 0);

    it("find their bytes, though one of them is copied aside into free memory", async () => {
      const [first, second] = [filled(64, 1), filled(64, 2)];
      await backend.synchronize();
      keepBusy(backend);
      const reads = [read(first, 64), read(second, 64)];
      // The copy of the first is likely to get the memory of the second.
      backend.free(second);
      backend.fill(first, 3, 64, "u8");
      await Promise.all(reads.map(({ done }) => done));
      expect(reads.map((one, i) => wrongBytes(one, i + 1))).to.deep.equal([0, 0]);
      backend.free(first);
    });

    it("find their bytes, though they are copied aside into memory that overlaps theirs", async () => {
      // Several chunks, which workers copy in any order.
      const bytes = 5 << 20;
      for (let round = 0; round < 5; round++) {
        const [before, handle] = [filled(1 << 20, 1), backend.alloc(bytes, { zero: false })];
        const content = new Uint32Array(bytes / 4).map((_, i) => Math.imul(i + round, 0x9e3779b1));
        backend.copyHtoD(handle, content);
        await backend.synchronize();
        keepBusy(backend);
        const { destination, done } = read(handle, bytes);
        backend.free(before);
        backend.free(handle);
        backend.free(filled(bytes, 9));
        await done;
        expect(Buffer.compare(destination, new Uint8Array(content.buffer)), `round ${round}`).to.equal(0);
      }
    });

    it("find their bytes whatever the order of frees and whoever gets the memory", async () => {
      let state = 7;
      const random = (below: number): number => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return Math.floor((state / 2 ** 32) * below);
      };
      for (let round = 0; round < 20; round++) {
        const values = Array.from({ length: 30 }, (_, i) => i + 1);
        const sizes = values.map(() => 1 + random(random(2) === 0 ? 300 : 5000));
        keepBusy(backend);
        const handles = values.map((value, i) => filled(sizes[i]!, value));
        const reads = handles.map((handle, i) => read(handle, sizes[i]!));
        while (handles.length > 0) backend.free(handles.splice(random(handles.length), 1)[0]!);
        for (let i = 0; i < 10; i++) backend.free(filled(1 + random(5000), 0xdd));
        await Promise.all(reads.map(({ done }) => done));
        expect(
          reads.map((one, i) => wrongBytes(one, values[i]!)),
          `round ${round}`,
        ).to.deep.equal(values.map(() => 0));
      }
    });

    it("leave nothing behind", async () => {
      const allowed = 1 << 26;
      for (let round = 0; round < 300; round++) {
        const handle = filled(1 << 20, round % 256);
        void read(handle, 1 << 20).done.catch(() => {});
        backend.free(handle);
        if (round % 20 === 19) await backend.synchronize();
      }
      await backend.synchronize();
      expect(backend.memory()).to.include({ liveAllocations: 0, liveBytes: 0 });
      expect(backend.memory().reservedBytes).to.be.lessThan(allowed);
    });
  });
}
