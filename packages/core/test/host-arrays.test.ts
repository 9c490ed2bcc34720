import { decodeFloat16, download, encodeFloat16, type HostArrayType, upload } from "@backplane/core";
import { assert } from "chai";
import { openFake, rejects, throws } from "./support/fake-driver.js";

/** Newer than the types here, and than the oldest engine. */
type Halves = Uint16Array<ArrayBuffer>;
const { Float16Array } = globalThis as { readonly Float16Array?: HostArrayType<Halves> };

describe("upload and download", () => {
  it("bring arrays of any type there and back", async () => {
    const { driver, backend } = await openFake();
    const floats = Float32Array.of(1, 2.5, -3);
    const handle = upload(backend, floats);
    assert.deepEqual(driver.calls, ["alloc 12 false", "write 0 12"]);
    floats.fill(0);
    const got: Float32Array<ArrayBuffer> = await download(backend, handle, Float32Array, 3);
    assert.deepEqual([...got], [1, 2.5, -3]);
    const slice: Uint8Array<ArrayBuffer> = await download(backend, { handle, byteOffset: 4 }, Uint8Array, 4);
    assert.deepEqual([...slice], [0, 0, 0x20, 0x40]);
    const range = upload(backend, new Uint16Array([9, 8, 7, 6]).subarray(1, 3));
    assert.deepEqual([...(await download(backend, range, Uint16Array, 2))], [8, 7]);
    assert.lengthOf(await download(backend, upload(backend, new ArrayBuffer(0)), BigInt64Array, 0), 0);
    await backend.dispose();
  });

  it("leave nothing behind where they fail, and say what is allowed", async () => {
    const { driver, backend } = await openFake();
    const handle = upload(backend, new Uint8Array(8));
    throws("INVALID_ARGUMENT", () => upload(backend, [1, 2] as unknown as Uint8Array), "source");
    driver.write = () => {
      throw new Error("the bus is gone");
    };
    throws("DEVICE_ERROR", () => upload(backend, new Uint8Array(8)));
    assert.equal(backend.memory().liveAllocations, 1);
    for (const type of [undefined, "f32", () => new Float32Array(2)])
      await rejects("INVALID_ARGUMENT", download(backend, handle, type as never, 2), "type");
    for (const length of [-1, 0.5, "2", undefined])
      await rejects("INVALID_ARGUMENT", download(backend, handle, Float32Array, length as number), "length");
    await rejects("OUT_OF_MEMORY", download(backend, handle, Float32Array, 2 ** 52), "length");
    await rejects("OUT_OF_BOUNDS", download(backend, handle, Float32Array, 3), "source");
    await backend.dispose();
    throws("DISPOSED", () => upload(backend, new Uint8Array(8)));
    await rejects("DISPOSED", download(backend, handle, Float32Array, 2));
  });

  it("take Float16Array where there is one", async function () {
    if (Float16Array === undefined) this.skip();
    const { backend } = await openFake();
    const bits = encodeFloat16([1, -2.5, 65504]);
    const handle = upload(backend, bits);
    const halves = await download(backend, handle, Float16Array, 3);
    assert.deepEqual([...halves], [1, -2.5, 65504]);
    assert.deepEqual([...decodeFloat16(halves)], [1, -2.5, 65504], "numbers, not bit patterns");
    backend.fill(handle, 0, 3, "f16");
    backend.copyHtoD(handle, halves);
    assert.deepEqual([...(await download(backend, handle, Uint16Array, 3))], [...bits]);
    await backend.dispose();
  });
});
