import { runInNewContext } from "node:vm";
import {
  type AllocOptions,
  type ComputeBackend,
  copyBetween,
  type DeviceHandle,
  type HostBytes,
  type Operand,
} from "@backplane/core";
import { assert } from "chai";
import { gate, noPool, openFake, rejects, throws } from "./support/fake-driver.js";

async function bytesOf(backend: ComputeBackend, source: Operand, length: number): Promise<number[]> {
  const bytes = new Uint8Array(length);
  await backend.copyDtoH(bytes, source);
  return [...bytes];
}

/** What the types of ES2023 lack. */
type ResizableBuffer = ArrayBuffer & { resize(length: number): void };
type ResizableConstructor = new (length: number, options: { maxByteLength: number }) => ResizableBuffer;

describe("memory of createBackend", () => {
  it("counts live allocations, live bytes, the peak and what the driver holds", async () => {
    const { backend } = await openFake();
    const a = backend.alloc(100);
    const b = backend.alloc(50);
    const empty = backend.alloc(0);
    assert.deepEqual(backend.memory(), {
      ...{ liveAllocations: 3, liveBytes: 150, peakBytes: 150, reservedBytes: 150, ...noPool },
    });
    backend.free(a);
    backend.free(empty);
    assert.deepEqual(backend.memory(), {
      ...{ liveAllocations: 1, liveBytes: 50, peakBytes: 150, reservedBytes: 50, ...noPool },
    });
    backend.alloc(60);
    assert.deepInclude(backend.memory(), { liveBytes: 110, peakBytes: 150 });
    backend.free(b);
    await backend.dispose();
    assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, peakBytes: 150 });
  });

  it("asks the driver for zeros unless told otherwise, and never for 0 bytes", async () => {
    const { driver, backend } = await openFake();
    backend.alloc(4);
    backend.alloc(5, {});
    backend.alloc(6, { zero: true });
    backend.alloc(7, { zero: false });
    const empty = backend.alloc(0);
    assert.isUndefined(backend.native(empty));
    backend.free(empty);
    assert.deepEqual(driver.calls, ["alloc 4 true", "alloc 5 true", "alloc 6 true", "alloc 7 false"]);
    await backend.dispose();
  });

  it("refuses bad sizes and options", async () => {
    const { backend } = await openFake({ maxAllocationBytes: 1000 });
    for (const bytes of [-1, 0.5, Number.NaN, Infinity, 2 ** 53, "4", null, undefined])
      throws("INVALID_ARGUMENT", () => backend.alloc(bytes as number), "bytes");
    throws("INVALID_ARGUMENT", () => backend.alloc(4, { zero: 0 as unknown as boolean }), "zero");
    for (const options of [null, [], 1, "zero"])
      throws("INVALID_ARGUMENT", () => backend.alloc(4, options as unknown as AllocOptions), "options");
    for (const options of [{ zeros: false }, { zero: true, zeros: false }, { zero: undefined, zeros: false }])
      throws("INVALID_ARGUMENT", () => backend.alloc(4, options as AllocOptions), "zeros");
    backend.free(backend.alloc(4, { zero: undefined } as unknown as AllocOptions));
    assert.match(throws("OUT_OF_MEMORY", () => backend.alloc(1001)).message, /1001 .* 1000 /);
    backend.alloc(1000);
    await backend.dispose();
  });

  it("ends a handle once", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(4);
    backend.free(memory);
    throws("INVALID_HANDLE", () => backend.free(memory));
    throws("INVALID_HANDLE", () => backend.copyHtoD(memory, new Uint8Array(1)));
    throws("INVALID_HANDLE", () => backend.native(memory));
    await rejects("INVALID_HANDLE", backend.copyDtoH(new Uint8Array(1), memory));
    throws("INVALID_HANDLE", () =>
      backend.free({ handle: memory, byteOffset: 0 } as unknown as DeviceHandle),
    );
    assert.equal(driver.calls.filter((call) => call.startsWith("free")).length, 1);
    await backend.dispose();
  });

  it("copies exactly the bytes that a host view shows", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(16);
    const buffer = Uint8Array.from({ length: 32 }, (_, i) => i).buffer;
    const views: [HostBytes, number[]][] = [
      [new Uint8Array(buffer, 3, 5), [3, 4, 5, 6, 7]],
      [new Float32Array(buffer, 4, 1), [4, 5, 6, 7]],
      [new DataView(buffer, 7, 3), [7, 8, 9]],
      [buffer.slice(0, 2), [0, 1]],
      [new Uint8Array(buffer).subarray(30), [30, 31]],
      [Buffer.from([9, 8, 7]), [9, 8, 7]],
    ];
    for (const [view, expected] of views) {
      backend.fill(memory, 0xff, 16, "u8");
      backend.copyHtoD({ handle: memory, byteOffset: 1 }, view);
      const padded = [255, ...expected, ...new Array<number>(15 - expected.length).fill(255)];
      assert.deepEqual(await bytesOf(backend, memory, 16), padded);
      const target = new Uint8Array(40).fill(1);
      await backend.copyDtoH(new DataView(target.buffer, 5, expected.length), {
        handle: memory,
        byteOffset: 1,
      });
      assert.deepEqual([...target.subarray(5, 5 + expected.length)], expected);
      assert.equal(target[4], 1);
      assert.equal(target[5 + expected.length], 1);
    }
    await backend.dispose();
  });

  it("takes shared buffers on both sides", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(4);
    const shared = new SharedArrayBuffer(8);
    new Uint8Array(shared).set([1, 2, 3, 4, 5, 6, 7, 8]);
    backend.copyHtoD(memory, new Uint8Array(shared, 2, 4));
    new Uint8Array(shared).fill(0);
    assert.deepEqual(await bytesOf(backend, memory, 4), [3, 4, 5, 6]);
    const target = new SharedArrayBuffer(4);
    await backend.copyDtoH(target, memory);
    assert.deepEqual([...new Uint8Array(target)], [3, 4, 5, 6]);
    await backend.dispose();
  });

  it("refuses what is not bytes, and buffers that were transferred away", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(8);
    for (const value of [[1, 2], "bytes", 4, null, undefined, {}]) {
      throws("INVALID_ARGUMENT", () => backend.copyHtoD(memory, value as unknown as HostBytes), "source");
      await rejects(
        "INVALID_ARGUMENT",
        backend.copyDtoH(value as unknown as HostBytes, memory),
        "destination",
      );
    }
    const gone = new ArrayBuffer(8);
    const views = [new Uint8Array(gone), new Float32Array(gone), new DataView(gone), gone];
    structuredClone(gone, { transfer: [gone] });
    for (const view of views) {
      const error = throws("INVALID_ARGUMENT", () => backend.copyHtoD(memory, view), "source");
      assert.match(error.message, /detached/);
      await rejects("INVALID_ARGUMENT", backend.copyDtoH(view, memory), "destination");
    }
    assert.deepEqual(driver.calls, ["alloc 8 true"]);
    await backend.dispose();
  });

  it("rejects a read whose array was transferred away meanwhile", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(8);
    const reading = gate();
    driver.reading = () => reading.promise;
    const target = new Uint8Array(8);
    const read = backend.copyDtoH(target, memory);
    structuredClone(target.buffer, { transfer: [target.buffer] });
    reading.open();
    assert.match((await rejects("INVALID_ARGUMENT", read, "destination")).message, /detached/);
    await backend.synchronize();
    await backend.dispose();
  });

  it("reads into what a growing buffer showed at the call, and refuses one that shrank", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(8);
    backend.fill(memory, 7, 8, "u8");
    for (const [length, code] of [
      [16, undefined],
      [4, "INVALID_ARGUMENT"],
    ] as const) {
      const reading = gate();
      driver.reading = () => reading.promise;
      const target: ResizableBuffer = new (ArrayBuffer as unknown as ResizableConstructor)(8, {
        maxByteLength: 16,
      });
      const read = backend.copyDtoH(target, memory);
      target.resize(length);
      reading.open();
      if (code === undefined) await read;
      else assert.match((await rejects(code, read, "destination")).message, /shortened/);
    }
    await backend.dispose();
  });

  it("refuses views that reach past a buffer which was shortened", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(16);
    const buffer = new (ArrayBuffer as unknown as ResizableConstructor)(16, { maxByteLength: 16 });
    const views = [new Uint8Array(buffer, 0, 16), new Float32Array(buffer, 8), new DataView(buffer, 8, 8)];
    const empty = new Uint8Array(buffer, 0, 0);
    buffer.resize(4);
    for (const view of views) {
      throws("INVALID_ARGUMENT", () => backend.copyHtoD(memory, view), "source");
      await rejects("INVALID_ARGUMENT", backend.copyDtoH(view, memory), "destination");
    }
    backend.copyHtoD(memory, empty);
    await backend.copyDtoH(empty, memory);
    await backend.dispose();
  });

  it("takes arrays and buffers of another realm, as frames and test runners have them", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(4);
    const foreign = (text: string) => runInNewContext(text) as ArrayBuffer;
    for (const text of ["Uint8Array.of(1, 2, 3, 4)", "Uint8Array.of(1, 2, 3, 4).buffer"]) {
      backend.fill(memory, 0, 4, "u8");
      backend.copyHtoD(memory, foreign(text));
      const target = foreign("new ArrayBuffer(4)");
      await backend.copyDtoH(target, memory);
      assert.deepEqual([...new Uint8Array(target)], [1, 2, 3, 4], text);
    }
    backend.copyHtoD(memory, foreign("new SharedArrayBuffer(4)"));
    await backend.dispose();
  });

  it("names a property of a slice that stands in the place of byteOffset", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(16);
    const [slice, whole] = [{ handle: memory, offset: 4 } as never, { handle: memory, byteOffset: 0 }];
    const bytes = new Uint8Array(4);
    const operands = { input: slice, output: whole };
    const step = backend.record(() => backend.fill(whole, 0, 1));
    for (const [call, operation, argument] of [
      [() => backend.copyHtoD(slice, bytes), "copyHtoD", "destination"],
      [() => backend.copyDtoD(whole, slice, 4), "copyDtoD", "source"],
      [() => backend.fill(slice, 0, 1), "fill", "destination"],
      [() => backend.unary({ kind: "exp", n: 1, ...operands }), "unary", "input"],
      [() => backend.record(() => backend.fill(slice, 0, 1)), "fill", "destination"],
      [() => step.run({ operands: new Map([[memory, slice]]) }), "Recording.run", "operands"],
    ] as const) {
      const { message } = throws("INVALID_ARGUMENT", call, `${argument}.offset`);
      assert.equal(message, `${operation}: ${argument}.offset is unknown; allowed: handle, byteOffset`);
    }
    const { backend: other } = await openFake();
    const copied = copyBetween(backend, slice, other, other.alloc(4), 4);
    const { message } = await rejects("INVALID_ARGUMENT", copied);
    assert.equal(message, "copyBetween: source.offset is unknown; allowed: handle, byteOffset");
    // A slice may have further properties.
    backend.fill({ ...whole, offset: 4 } as never, 0, 1);
    await backend.dispose();
    await other.dispose();
  });

  it("checks the bounds of every access", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(16);
    const other = backend.alloc(16);
    const at = (byteOffset: number) => ({ handle: memory, byteOffset });
    const nine = new Uint8Array(9);
    for (const [byteOffset, code] of [
      [8, "OUT_OF_BOUNDS"],
      [17, "OUT_OF_BOUNDS"],
      [2 ** 53 - 1, "OUT_OF_BOUNDS"],
      [-1, "INVALID_ARGUMENT"],
      [0.5, "INVALID_ARGUMENT"],
      [Number.NaN, "INVALID_ARGUMENT"],
      [2 ** 53, "INVALID_ARGUMENT"],
      [undefined, "INVALID_ARGUMENT"],
      ["0", "INVALID_ARGUMENT"],
    ] as const) {
      const operand = at(byteOffset as number);
      throws(code, () => backend.copyHtoD(operand, nine));
      await rejects(code, backend.copyDtoH(nine, operand));
      throws(code, () => backend.copyDtoD(operand, other, 9));
      throws(code, () => backend.copyDtoD(other, operand, 9));
      throws(code, () => backend.fill(operand, 0, 9, "u8"));
    }
    throws("OUT_OF_BOUNDS", () => backend.copyHtoD(at(17), new Uint8Array(0)));
    throws("OUT_OF_BOUNDS", () => backend.fill(memory, 0, 2 ** 53 - 1, "f32"), "destination");
    assert.lengthOf(driver.calls, 2);
    backend.copyHtoD(at(7), nine);
    backend.copyHtoD(at(16), new Uint8Array(0));
    backend.fill(at(16), 0, 0);
    backend.copyDtoD(at(16), at(16), 0);
    await backend.copyDtoH(new Uint8Array(0), at(16));
    assert.deepEqual(driver.calls.slice(2), ["write 7 9"]);
    await backend.dispose();
  });

  it("copies within one allocation unless the places overlap", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(10);
    const at = (byteOffset: number) => ({ handle: memory, byteOffset });
    backend.copyHtoD(
      memory,
      Uint8Array.from({ length: 10 }, (_, i) => i),
    );
    for (const [to, from] of [
      [0, 0],
      [1, 3],
      [3, 1],
      [0, 2],
    ] as const)
      throws("INVALID_ARGUMENT", () => backend.copyDtoD(at(to), at(from), 3), "destination");
    backend.copyDtoD(at(7), at(1), 3);
    backend.copyDtoD(at(0), at(3), 3);
    assert.deepEqual(await bytesOf(backend, memory, 10), [3, 4, 5, 3, 4, 5, 6, 1, 2, 3]);
    for (const bytes of [-1, 0.5, "3", undefined, 2 ** 53])
      throws("INVALID_ARGUMENT", () => backend.copyDtoD(at(0), at(5), bytes as number), "bytes");
    await backend.dispose();
  });

  it("fills with elements of each type, at multiples of their size", async () => {
    const { backend } = await openFake();
    const memory = backend.alloc(12);
    const at = (byteOffset: number) => ({ handle: memory, byteOffset });
    backend.fill(memory, 7, 12, "u8");
    backend.fill(at(4), 1.5, 1);
    backend.fill(at(2), -2, 1, "f16");
    backend.fill(at(9), 255, 2, "u8");
    assert.deepEqual(await bytesOf(backend, memory, 12), [7, 7, 0, 0xc0, 0, 0, 0xc0, 0x3f, 7, 255, 255, 7]);
    backend.fill(memory, Number.NaN, 1);
    backend.fill(at(4), -Infinity, 1);
    const words = new Uint32Array(2);
    await backend.copyDtoH(words, memory);
    assert.equal(words[0]! & 0x7fffffff, 0x7fc00000);
    assert.equal(words[1], 0xff800000);
    for (const byteOffset of [1, 2, 3, 6])
      throws("INVALID_ARGUMENT", () => backend.fill(at(byteOffset), 0, 1), "destination.byteOffset");
    for (const byteOffset of [1, 3])
      throws("INVALID_ARGUMENT", () => backend.fill(at(byteOffset), 0, 1, "f16"), "destination.byteOffset");
    for (const value of [-1, 256, 0.5, Number.NaN])
      throws("INVALID_ARGUMENT", () => backend.fill(memory, value, 1, "u8"), "value");
    backend.fill(memory, -2, 1, "i32");
    backend.fill(at(4), 2 ** 32 - 2, 1, "u32");
    backend.fill(at(8), 1 + 2 ** -8, 1, "bf16");
    backend.fill(at(10), -2.5, 1, "bf16");
    assert.deepEqual(
      await bytesOf(backend, memory, 12),
      [0xfe, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff, 0x80, 0x3f, 0x20, 0xc0],
    );
    for (const value of [0.5, Number.NaN, Infinity, 2 ** 31, -(2 ** 31) - 1])
      throws("INVALID_ARGUMENT", () => backend.fill(memory, value, 1, "i32"), "value");
    for (const value of [0.5, Number.NaN, -1, 2 ** 32])
      throws("INVALID_ARGUMENT", () => backend.fill(memory, value, 1, "u32"), "value");
    throws("INVALID_ARGUMENT", () => backend.fill(memory, "0" as unknown as number, 1), "value");
    throws("INVALID_ARGUMENT", () => backend.fill(memory, 0, 1.5), "count");
    throws("INVALID_ARGUMENT", () => backend.fill(memory, 0, -1), "count");
    throws("INVALID_ARGUMENT", () => backend.fill(memory, 0, 1, "u16" as "u8"), "dtype");
    await backend.dispose();
  });

  it("gives what lies underneath", async () => {
    const { driver, backend } = await openFake();
    const memory = backend.alloc(4);
    assert.equal(backend.native(), driver);
    assert.equal(backend.native(memory), [...driver.live][0]);
    await backend.dispose();
  });
});
