import { copyBetween } from "@backplane/core";
import { assert } from "chai";
import { gate, openFake, rejects, settle } from "./support/fake-driver.js";
import { pattern } from "./support/swapping.js";

const pieceBytes = 4 * 2 ** 20;

describe("copyBetween", () => {
  it("copies a region to another backend, and reads the next piece while one is written", async () => {
    const [one, two] = [await openFake(), await openFake()];
    const bytes = pieceBytes + 5;
    const contents = pattern(bytes + 3, 1);
    const source = one.backend.alloc(bytes + 3);
    const destination = two.backend.alloc(bytes + 7);
    one.backend.copyHtoD(source, contents);
    const held = gate();
    let reads = 0;
    one.driver.reading = async () => {
      if (reads++ === 1) await held.promise;
    };
    const from = { handle: source, byteOffset: 3 };
    const copied = copyBetween(one.backend, from, two.backend, { handle: destination, byteOffset: 2 }, bytes);
    await settle();
    assert.isTrue(two.driver.calls.includes(`write 2 ${pieceBytes}`), "the first piece was written");
    assert.equal(reads, 2, "while the second was read");
    held.open();
    await copied;
    const result = new Uint8Array(bytes + 7);
    await two.backend.copyDtoH(result, destination);
    assert.isTrue(Buffer.from(result.subarray(2, bytes + 2)).equals(Buffer.from(contents.subarray(3))));
    assert.deepEqual([...result.subarray(0, 2), ...result.subarray(bytes + 2)], [0, 0, 0, 0, 0, 0, 0]);
    for (const { backend } of [one, two]) await backend.dispose();
  });

  it("copies within one backend, and nothing if nothing is asked for", async () => {
    const { backend, driver } = await openFake();
    const [a, b] = [backend.alloc(4), backend.alloc(4)];
    backend.copyHtoD(a, Uint8Array.of(1, 2, 3, 4));
    await copyBetween(backend, a, backend, b, 4);
    assert.isTrue(driver.calls.includes("copy 0 0 4"));
    const other = await openFake();
    await copyBetween(backend, a, other.backend, other.backend.alloc(0), 0);
    for (const each of [backend, other.backend]) await each.dispose();
  });

  it("refuses bad arguments before it copies anything", async () => {
    const [one, two] = [await openFake(), await openFake()];
    const [a, b] = [one.backend.alloc(8), two.backend.alloc(4)];
    const copy = (source: never, destination: never, bytes: number): Promise<void> =>
      copyBetween(one.backend, source, two.backend, destination, bytes);
    await rejects("INVALID_ARGUMENT", copy(a as never, b as never, -1), "bytes");
    await rejects("OUT_OF_BOUNDS", copy(a as never, b as never, 5));
    await rejects("OUT_OF_BOUNDS", copy({ handle: a, byteOffset: 6 } as never, b as never, 4));
    await rejects("INVALID_HANDLE", copy(b as never, a as never, 4));
    assert.isFalse([...one.driver.calls, ...two.driver.calls].some((call) => /^(read|write)/.test(call)));
    for (const { backend } of [one, two]) await backend.dispose();
  });

  it("rejects if a write fails while the next piece is read, and if a read fails", async () => {
    const [one, two] = [await openFake(), await openFake()];
    const [a, b] = [one.backend.alloc(2 * pieceBytes), two.backend.alloc(2 * pieceBytes)];
    two.driver.write = () => {
      throw new Error("no");
    };
    await rejects("DEVICE_ERROR", copyBetween(one.backend, a, two.backend, b, 2 * pieceBytes));
    one.driver.reading = () => Promise.reject(new Error("no"));
    await rejects("DEVICE_ERROR", copyBetween(one.backend, a, two.backend, b, 2 * pieceBytes));
    for (const { backend } of [one, two]) await backend.dispose();
  });
});
