import { copyBetween, type Region } from "@backplane/core";
import { assert } from "chai";
import { type FakeMemory, gate, openFake, rejects, settle } from "./support/fake-driver.js";
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
    await rejects("OUT_OF_BOUNDS", copy(a as never, b as never, 5), "destination");
    await rejects("OUT_OF_BOUNDS", copy({ handle: a, byteOffset: 6 } as never, b as never, 4), "source");
    await rejects("INVALID_HANDLE", copy(b as never, a as never, 4), "source");
    // What a registry opens is an object with the backend in it.
    for (const none of [undefined, null, { name: "one", backend: one.backend }] as never[]) {
      for (const [from, to] of [
        [none, one.backend] as const,
        [one.backend, none] as const,
        [none, none] as const,
      ])
        await rejects("INVALID_ARGUMENT", copyBetween(from, a, to, a, 4), "backend");
    }
    for (const [message, copied] of [
      [
        "copyBetween: destination needs bytes 0..5 of an allocation of 4 bytes",
        copy(a as never, b as never, 5),
      ],
      [
        "copyBetween: source needs bytes 20..24 of an allocation of 8 bytes",
        copy({ handle: a, byteOffset: 20 } as never, b as never, 4),
      ],
      [/^copyBetween: source \d+ is not live on this backend/, copy(b as never, a as never, 4)],
      [/^copyBetween: source is missing/, copy(undefined as never, a as never, 4)],
      [
        /^copyBetween: source\.byteOffset is -1;/,
        copy({ handle: a, byteOffset: -1 } as never, b as never, 4),
      ],
    ] as const)
      assert.match(
        await copied.then(String, ({ message }: Error) => message),
        typeof message === "string" ? new RegExp(`^${message}$`) : message,
      );
    assert.isFalse([...one.driver.calls, ...two.driver.calls].some((call) => /^(read|write)/.test(call)));
    for (const { backend } of [one, two]) await backend.dispose();
  });

  it("reads and writes memory of the host directly, in large pieces, when earlier work on it is done", async () => {
    const direct = 32 * 2 ** 20;
    const bytes = direct + 5;
    const [host, device] = [await openFake(), await openFake()];
    const asked: unknown[] = [];
    Object.assign(host.driver, {
      hostBytes({ memory, byteOffset, byteLength }: Region<FakeMemory>, isWritten: boolean) {
        asked.push([byteOffset, byteLength, isWritten]);
        return memory.bytes.subarray(byteOffset, byteOffset + byteLength);
      },
    });
    const contents = pattern(bytes, 1);
    const [a, b] = [host.backend.alloc(bytes + 3), host.backend.alloc(bytes + 3)];
    const there = device.backend.alloc(bytes);
    host.backend.copyHtoD({ handle: a, byteOffset: 3 }, contents);
    const held = gate();
    host.driver.synchronizing = () => held.promise;
    const from = { handle: a, byteOffset: 3 };
    const out = copyBetween(host.backend, from, device.backend, there, bytes);
    await settle();
    assert.isFalse(device.driver.calls.some((call) => call.startsWith("write")));
    held.open();
    await out;
    assert.isTrue(device.driver.calls.includes(`write 0 ${bytes}`));
    await copyBetween(device.backend, there, host.backend, { handle: b, byteOffset: 2 }, bytes);
    const [whole, first, second] = [
      [3, bytes, false],
      [2, direct, true],
      [2 + direct, 5, true],
    ];
    // Both pieces are prepared before either is read.
    assert.deepEqual(asked, [whole, whole, first, second, first, second]);
    assert.isFalse(host.driver.calls.some((call) => call.startsWith("read")));
    const result = new Uint8Array(bytes + 3);
    await host.backend.copyDtoH(result, b);
    assert.isTrue(Buffer.from(result.subarray(2, bytes + 2)).equals(Buffer.from(contents)));
    assert.deepEqual([...result.subarray(0, 2), result.at(-1)], [0, 0, 0]);
    for (const { backend } of [host, device]) await backend.dispose();
  });

  it("begins no piece once one has failed, and rejects when none is under way any more", async () => {
    const bytes = 2 * 32 * 2 ** 20 + 5;
    const [host, device] = [await openFake(), await openFake()];
    Object.assign(host.driver, {
      hostBytes: ({ memory, byteOffset, byteLength }: Region<FakeMemory>) =>
        memory.bytes.subarray(byteOffset, byteOffset + byteLength),
    });
    const [a, there] = [host.backend.alloc(bytes), device.backend.alloc(bytes)];
    const held = gate();
    let reads = 0;
    device.driver.reading = () => (reads++ === 0 ? held.promise : Promise.reject(new Error("no")));
    let isSettled = false;
    const copied = copyBetween(device.backend, there, host.backend, a, bytes).finally(() => {
      isSettled = true;
    });
    const rejected = rejects("DEVICE_ERROR", copied);
    await settle();
    assert.deepEqual([reads, isSettled], [2, false], "the first piece is still read");
    held.open();
    await rejected;
    await settle();
    assert.equal(reads, 2);
    for (const { backend } of [host, device]) await backend.dispose();
  });

  it("frees memory that it uses when it has done, and takes another way if somebody watches the copies", async () => {
    const [host, device] = [await openFake(), await openFake()];
    Object.assign(host.driver, { hostBytes: ({ memory }: Region<FakeMemory>) => memory.bytes });
    const [a, there] = [host.backend.alloc(8), device.backend.alloc(8)];
    const held = gate();
    device.driver.reading = () => held.promise;
    const moved = copyBetween(device.backend, there, host.backend, a, 8);
    await settle();
    host.backend.free(a);
    assert.equal(host.driver.live.size, 1);
    assert.equal(host.backend.memory().liveBytes, 0);
    held.open();
    await moved;
    assert.equal(host.driver.live.size, 0);
    const b = host.backend.alloc(8);
    let reads = 0;
    const { backend } = host;
    const read = backend.copyDtoH.bind(backend);
    backend.copyDtoH = (...args) => {
      reads++;
      return read(...args);
    };
    await copyBetween(backend, b, device.backend, there, 8);
    assert.equal(reads, 1);
    for (const each of [host, device]) await each.backend.dispose();
  });

  it("reads again into memory that has moved meanwhile", async () => {
    const [host, device] = [await openFake(), await openFake()];
    let buffer = new ArrayBuffer(8);
    Object.assign(host.driver, {
      hostBytes: ({ byteOffset, byteLength }: Region<FakeMemory>) =>
        new Uint8Array(buffer, byteOffset, byteLength),
    });
    const [a, there] = [host.backend.alloc(8), device.backend.alloc(4)];
    device.backend.copyHtoD(there, Uint8Array.of(1, 2, 3, 4));
    let reads = 0;
    device.driver.reading = async () => {
      if (reads++ === 0) buffer = structuredClone(buffer, { transfer: [buffer] });
    };
    await copyBetween(device.backend, there, host.backend, { handle: a, byteOffset: 2 }, 4);
    assert.deepEqual([...new Uint8Array(buffer)], [0, 0, 1, 2, 3, 4, 0, 0]);
    assert.equal(reads, 2);
    for (const { backend } of [host, device]) await backend.dispose();
  });

  it("hands bytes that stay as they are to drivers that can wait for them", async () => {
    const [host, device] = [await openFake(), await openFake()];
    let shared = new Uint8Array(new SharedArrayBuffer(4));
    Object.assign(host.driver, { hostBytes: () => shared });
    const held = gate();
    let uploads = 0;
    Object.assign(device.driver, {
      async upload(memory: FakeMemory, byteOffset: number, source: Uint8Array) {
        uploads++;
        await held.promise;
        memory.bytes.set(source, byteOffset);
      },
    });
    const [a, there] = [host.backend.alloc(4), device.backend.alloc(6)];
    shared.set([1, 2, 3, 4]);
    const moved = copyBetween(host.backend, a, device.backend, { handle: there, byteOffset: 2 }, 4);
    await settle();
    device.backend.free(there);
    assert.equal(device.driver.live.size, 1);
    held.open();
    await moved;
    assert.deepEqual([uploads, device.driver.live.size], [1, 0]);
    Object.assign(device.driver, { upload: () => Promise.reject(new Error("no")) });
    const other = device.backend.alloc(4);
    await rejects("DEVICE_ERROR", copyBetween(host.backend, a, device.backend, other, 4));
    // Memory that may go at the next call is written at once.
    shared = Uint8Array.of(5, 6, 7, 8) as never;
    await copyBetween(host.backend, a, device.backend, other, 4);
    assert.isTrue(device.driver.calls.includes("write 0 4"));
    for (const { backend } of [host, device]) await backend.dispose();
  });

  it("rejects if a write fails while the next piece is read, and if a read fails", async () => {
    const [one, two] = [await openFake(), await openFake()];
    const [a, b] = [one.backend.alloc(2 * pieceBytes), two.backend.alloc(2 * pieceBytes)];
    two.driver.write = () => {
      throw new Error("no");
    };
    const held = gate();
    let reads = 0;
    let isSettled = false;
    one.driver.reading = async () => {
      if (reads++ === 1) await held.promise;
    };
    const copied = copyBetween(one.backend, a, two.backend, b, 2 * pieceBytes).finally(() => {
      isSettled = true;
    });
    const rejected = rejects("DEVICE_ERROR", copied);
    await settle();
    assert.deepEqual([reads, isSettled], [2, false], "the next piece is still read");
    held.open();
    await rejected;
    one.driver.reading = () => Promise.reject(new Error("no"));
    await rejects("DEVICE_ERROR", copyBetween(one.backend, a, two.backend, b, 2 * pieceBytes));
    for (const { backend } of [one, two]) await backend.dispose();
  });
});
