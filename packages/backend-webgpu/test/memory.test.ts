import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { DeviceHandle } from "@backplane/core";
import { assert } from "chai";
import { roundedCapacity } from "#src/runtime/memory.js";
import { noise, TestDevice, withDevice } from "./support.js";

describe("webgpu memory", () => {
  const device = withDevice();

  it("writes and reads at any offset and length, and nothing else", async () => {
    for (let offset = 0; offset < 9; offset++)
      for (let length = 1; length < 14; length++) {
        const expected = noise(40);
        const memory = device().upload(expected);
        const source = noise(length, offset);
        device().driver.write(memory, offset, source);
        const part = device().download(memory, offset, length);
        const all = device().download(memory, 0, 40);
        expected.set(source, offset);
        assert.deepEqual(await part, source, `part of ${length} at ${offset}`);
        assert.deepEqual(await all, expected, `all of ${length} at ${offset}`);
        device().driver.free(memory);
      }
  });

  it("copies between and within allocations at any offset and length, and nothing else", async () => {
    for (const within of [false, true])
      for (let from = 0; from < 5; from++)
        for (let to = 0; to < 5; to++)
          for (const length of [1, 2, 3, 4, 5, 7, 8, 16, 21]) {
            const source = noise(80, 1);
            const expected = within ? source : noise(80, 2);
            const sourceMemory = device().upload(source);
            const memory = within ? sourceMemory : device().upload(expected);
            const sourceOffset = from;
            // Right behind the source, so that the two share a word.
            const offset = within ? from + length + to : to;
            device().driver.copy(
              { memory, byteOffset: offset, byteLength: length },
              { memory: sourceMemory, byteOffset: sourceOffset, byteLength: length },
            );
            expected.set(source.subarray(sourceOffset, sourceOffset + length), offset);
            const label = `${length} bytes from ${from} to ${offset}, within ${within}`;
            assert.deepEqual(await device().download(memory, 0, 80), expected, label);
            if (!within) assert.deepEqual(await device().download(sourceMemory, 0, 80), source, label);
            device().driver.free(memory);
            if (!within) device().driver.free(sourceMemory);
          }
  });

  it("fills any bytes with a pattern that is aligned to the allocation", async () => {
    for (const pattern of [0x04030201, 0, 0xffffffff])
      for (const offset of [0, 1, 2, 3, 4, 7, 13, 16])
        for (const length of [1, 2, 3, 4, 8, 15, 16, 17, 33, 48]) {
          const expected = noise(72);
          const memory = device().upload(expected);
          device().driver.fill({ memory, byteOffset: offset, byteLength: length }, pattern);
          for (let i = offset; i < offset + length; i++) expected[i] = pattern >>> (8 * (i % 4));
          const label = `${length} bytes at ${offset} of ${pattern.toString(16)}`;
          assert.deepEqual(await device().download(memory, 0, 72), expected, label);
          device().driver.free(memory);
        }
  });

  it("hands out zeros where zeros are asked for, also from used memory", async () => {
    const { driver } = device();
    for (const bytes of [1, 5, 64, 1000]) {
      for (let i = 0; i < 3; i++) driver.free(device().upload(new Uint8Array(bytes).fill(0xee)));
      const zeros = driver.alloc(bytes, true);
      const partly = driver.alloc(bytes, true);
      driver.write(partly, bytes - 1, Uint8Array.of(7));
      const copied = driver.alloc(bytes, false);
      const third = driver.alloc(bytes, true);
      driver.copy(
        { memory: copied, byteOffset: 0, byteLength: bytes },
        { memory: third, byteOffset: 0, byteLength: bytes },
      );
      const expected = new Uint8Array(bytes);
      assert.deepEqual(await device().download(zeros, 0, bytes), expected);
      assert.deepEqual(await device().download(copied, 0, bytes), expected);
      expected[bytes - 1] = 7;
      assert.deepEqual(await device().download(partly, 0, bytes), expected);
      for (const memory of [zeros, partly, copied, third]) driver.free(memory);
    }
  });

  it("clears used memory once, and not where every byte is written over", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const source = backend.alloc(4000);
    backend.copyHtoD(source, noise(4000));
    /** Dispatches for the first use of memory that had another owner before. */
    const dispatches = async (use: (memory: DeviceHandle) => void): Promise<number> => {
      backend.free(backend.alloc(4000));
      const memory = backend.alloc(4000);
      const profile = await backend.profile(() => use(memory));
      backend.free(memory);
      return profile.dispatches;
    };
    assert.equal(await dispatches((memory) => backend.fill(memory, 1, 1000)), 1);
    assert.equal(await dispatches((memory) => backend.copyDtoD(memory, source, 4000)), 1);
    assert.equal(await dispatches((memory) => backend.copyHtoD(memory, noise(4000))), 0);
    assert.equal(await dispatches((memory) => backend.fill(memory, 1, 999)), 2);
    assert.equal(await dispatches((memory) => backend.fill({ handle: memory, byteOffset: 4 }, 1, 999)), 2);
    assert.equal(await dispatches((memory) => backend.copyDtoD(memory, source, 3999)), 2);
    assert.equal(await dispatches((memory) => backend.copyHtoD(memory, noise(3996))), 1);
    await backend.dispose();
  });

  it("counts its pool, and gives all of it back when it is trimmed, also what recorded commands use", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const counts = () => {
      const { pooledBytes, poolHits, poolMisses } = backend.memory();
      return [pooledBytes, poolHits, poolMisses];
    };
    assert.deepEqual(counts(), [0, 0, 0]);
    const { reservedBytes } = backend.memory();
    const [kept, other] = [backend.alloc(1 << 20), backend.alloc(1 << 20)];
    assert.deepEqual(counts(), [0, 0, 2]);
    const content = noise(1 << 20);
    backend.copyHtoD(other, content);
    backend.copyDtoD(kept, other, 1 << 20);
    backend.free(other);
    assert.deepEqual(counts(), [1 << 20, 0, 2]);
    // The copy is recorded, and not submitted: it reads what goes back now.
    backend.trim();
    assert.deepEqual(counts(), [0, 0, 2]);
    const target = new Uint8Array(1 << 20);
    await backend.copyDtoH(target, kept);
    assert.deepEqual(target, content);
    // What reads take on their way is pooled, too.
    assert.equal(backend.memory().pooledBytes, 1 << 20);
    backend.free(kept);
    backend.free(backend.alloc(1 << 20));
    assert.deepEqual(counts(), [2 << 20, 1, 2]);
    backend.trim();
    assert.deepEqual(counts(), [0, 1, 2]);
    assert.equal(backend.memory().reservedBytes, reservedBytes);
    await backend.synchronize();
    await backend.dispose();
  });

  it("submits what is recorded when it is flushed, without an end of the caller's code", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    const handle = backend.alloc(64);
    await backend.synchronize();
    const { queue } = backend.native() as GPUDevice;
    const submit = queue.submit.bind(queue);
    const submitted: number[] = [];
    queue.submit = (commands) => {
      submitted.push([...commands].length);
      submit(commands);
    };
    backend.flush();
    assert.isEmpty(submitted, "there is nothing to submit");
    backend.fill(handle, 1, 16);
    assert.isEmpty(submitted);
    backend.flush();
    assert.deepEqual(submitted, [1]);
    backend.flush();
    await undefined;
    assert.deepEqual(submitted, [1]);
    const values = new Float32Array(16);
    await backend.copyDtoH(values, handle);
    assert.deepEqual([...values], new Array(16).fill(1));
    assert.throws(() => backend.copyDtoHSync(values, handle), /webgpu cannot read here .*await copyDtoH\(\)/);
    await backend.dispose();
  });

  it("takes a snapshot of what it writes, also of shared memory", async () => {
    const { driver } = device();
    const shared = new Uint8Array(new SharedArrayBuffer(16), 3, 9).fill(5);
    const plain = new Uint8Array(9).fill(6);
    const [first, second] = [driver.alloc(9, true), driver.alloc(9, true)];
    driver.write(first, 0, shared);
    driver.write(second, 0, plain);
    shared.fill(0);
    plain.fill(0);
    assert.deepEqual(await device().download(first, 0, 9), new Uint8Array(9).fill(5));
    assert.deepEqual(await device().download(second, 0, 9), new Uint8Array(9).fill(6));
    const destination = new Uint8Array(new SharedArrayBuffer(9));
    await driver.read(destination, first, 0);
    assert.deepEqual([...destination], new Array(9).fill(5));
  });

  it("keeps the order of writes, operations and reads", async () => {
    const { driver } = device();
    const memory = device().upload(new Uint8Array(8).fill(1));
    const reads: Promise<Uint8Array>[] = [];
    const copies = [2, 3, 4].map((value) => {
      const copy = driver.alloc(8, true);
      driver.copy({ memory: copy, byteOffset: 0, byteLength: 8 }, { memory, byteOffset: 0, byteLength: 8 });
      reads.push(device().download(memory, 0, 8));
      driver.write(memory, 0, new Uint8Array(8).fill(value));
      return copy;
    });
    for (const [i, copy] of copies.entries()) {
      assert.deepEqual(await reads[i]!, new Uint8Array(8).fill(i + 1));
      assert.deepEqual(await device().download(copy, 0, 8), new Uint8Array(8).fill(i + 1));
    }
    // Without a read in between: the write must not overtake the copy.
    const last = driver.alloc(8, true);
    driver.copy({ memory: last, byteOffset: 0, byteLength: 8 }, { memory, byteOffset: 0, byteLength: 8 });
    driver.write(memory, 0, new Uint8Array(8).fill(9));
    assert.deepEqual(await device().download(last, 0, 8), new Uint8Array(8).fill(4));
  });

  it("may free memory at once after its last use", async () => {
    const { driver } = device();
    const source = device().upload(noise(256));
    const result = driver.alloc(256, false);
    driver.copy(
      { memory: result, byteOffset: 0, byteLength: 256 },
      { memory: source, byteOffset: 0, byteLength: 256 },
    );
    driver.free(source);
    const reused = driver.alloc(256, false);
    driver.write(reused, 0, new Uint8Array(256));
    const read = device().download(result, 0, 256);
    driver.free(result);
    assert.deepEqual(await read, noise(256));
  });

  it("caps the pool by bytes, also while commands are pending", async () => {
    const poolBytes = 1 << 16;
    const capped = await TestDevice.open({ poolBytes });
    const before = capped.driver.reservedBytes();
    for (let round = 0; round < 50; round++) {
      const memories = Array.from({ length: 8 }, (_, i) => capped.driver.alloc(5000 + 3000 * i, true));
      for (const memory of memories)
        capped.driver.fill({ memory, byteOffset: 0, byteLength: 4999 }, 0x01010101);
      for (const memory of memories) capped.driver.free(memory);
      if (round % 7 === 0) await capped.driver.synchronize();
    }
    await capped.driver.synchronize();
    assert.isAtMost(capped.driver.reservedBytes() - before, poolBytes);
    await capped.close();
  });

  it("rounds capacities to whole vectors, by an eighth or 1 MiB at most", () => {
    for (const bytes of [1, 15, 16, 17, 255, 256, 257, 4097, 100_000, 1e7, 1e9, 2 ** 31]) {
      const capacity = roundedCapacity(bytes);
      assert.equal(capacity % 16, 0);
      assert.isAtLeast(capacity, bytes);
      assert.isAtMost(capacity - bytes, Math.min(Math.max(bytes / 8, 256), 2 ** 20));
    }
  });
});
