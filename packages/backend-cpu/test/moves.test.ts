import { createCpuBackend } from "@backplane/backend-cpu";
import { type ComputeBackend, copyBetween } from "@backplane/core";
import { assert } from "chai";

const MiB = 2 ** 20;

function numbers(bytes: number, seed: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => Math.imul(i + seed, 0x9e3779b1) >>> 24);
}

async function opened(threads: number): Promise<ComputeBackend> {
  const backend = createCpuBackend({ threads });
  await backend.init();
  return backend;
}

describe("moves between backends on the CPU", () => {
  for (const [from, to] of [
    [2, 2],
    [2, 0],
    [0, 2],
    [0, 0],
  ] as const)
    it(`keep all bits, and the bytes beside them, of memory that is new and that is not: ${from} to ${to} threads`, async () => {
      const [one, other] = [await opened(from), await opened(to)];
      const bytes = 2 * MiB + 13;
      const contents = numbers(bytes, 1);
      const source = one.alloc(bytes + 7);
      one.copyHtoD({ handle: source, byteOffset: 7 }, contents);
      // What a queue still has to do comes first.
      const product = one.alloc(4 * 256 ** 2);
      one.gemm({ m: 256, n: 256, k: 256, a: product, b: product, c: one.alloc(4 * 256 ** 2) });
      const used = other.alloc(bytes + 64);
      other.fill(used, 9, bytes + 64, "u8");
      other.free(used);
      for (const [destination, beside] of [
        [other.alloc(8 * MiB), 0],
        [other.alloc(bytes + 64, { zero: false }), undefined],
      ] as const) {
        const length = bytes + 64;
        const before = new Uint8Array(length);
        if (beside === undefined) other.fill(destination, 5, length, "u8");
        await copyBetween(
          one,
          { handle: source, byteOffset: 7 },
          other,
          { handle: destination, byteOffset: 3 },
          bytes,
        );
        await other.copyDtoH(before, destination);
        assert.isTrue(Buffer.from(before.subarray(3, 3 + bytes)).equals(Buffer.from(contents)));
        const rest = [...before.subarray(0, 3), ...before.subarray(3 + bytes)];
        assert.isTrue(rest.every((byte) => byte === (beside ?? 5)));
      }
      for (const backend of [one, other]) await backend.dispose();
    });

  it("keep what else is written to new memory", async () => {
    const [one, other] = [await opened(1), await opened(1)];
    const contents = numbers(3 * MiB, 2);
    const [source, destination] = [one.alloc(3 * MiB), other.alloc(3 * MiB)];
    one.copyHtoD(source, contents);
    other.copyHtoD({ handle: destination, byteOffset: 2 * MiB }, contents.subarray(2 * MiB));
    const at = (handle: typeof source, byteOffset: number) => ({ handle, byteOffset });
    await copyBetween(one, at(source, MiB), other, at(destination, MiB), MiB);
    await copyBetween(one, source, other, destination, MiB);
    const result = new Uint8Array(3 * MiB);
    await other.copyDtoH(result, destination);
    assert.isTrue(Buffer.from(result).equals(Buffer.from(contents)));
    for (const backend of [one, other]) await backend.dispose();
  });
});

describe("copies on the CPU", () => {
  it("keep all bits, and the bytes beside them, however far into a page both places lie", async () => {
    const backend = await opened(0);
    const length = 600_000;
    const contents = numbers(length, 3);
    const source = backend.alloc(length);
    const destination = backend.alloc(length + 8192);
    backend.copyHtoD(source, contents);
    const result = new Uint8Array(length + 8192);
    for (const ahead of [0, 1, 4, 16, 31, 32, 33, 4095, 4096, 4100])
      for (const bytes of [17, 4096, 8191, 8192, 300_001]) {
        backend.fill(destination, 5, result.length, "u8");
        const from = { handle: source, byteOffset: 3 };
        backend.copyDtoD({ handle: destination, byteOffset: 3 + ahead }, from, bytes);
        await backend.copyDtoH(result, destination);
        const copied = result.subarray(3 + ahead, 3 + ahead + bytes);
        assert.isTrue(Buffer.from(copied).equals(Buffer.from(contents.subarray(3, 3 + bytes))));
        const rest = [result.subarray(0, 3 + ahead), result.subarray(3 + ahead + bytes)];
        assert.isTrue(rest.every((part) => part.every((byte) => byte === 5)));
      }
    await backend.dispose();
  });
});
