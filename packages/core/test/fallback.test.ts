import {
  BackendRegistry,
  type ComputeBackend,
  createBackend,
  FallbackBackend,
  type FallbackEvent,
  type FallbackOptions,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, fakeProvider, gate, rejects, settle, throws } from "./support/fake-driver.js";

/** A driver without gemm, whose reads must be awaited. */
class Lacking extends FakeDriver {
  override allKernels(): FakeDriver["kernels"] {
    const { gemm: _, batchedGemm: __, ...others } = super.allKernels();
    return others;
  }
}

/** The same, which also reads while the caller waits. */
class ReadsNow extends Lacking {
  override async open(...given: Parameters<FakeDriver["open"]>): ReturnType<FakeDriver["open"]> {
    return { ...(await super.open(...given)), synchronousReads: true };
  }

  readSync(
    destination: Uint8Array<ArrayBufferLike>,
    source: { bytes: Uint8Array },
    byteOffset: number,
  ): void {
    destination.set(source.bytes.subarray(byteOffset, byteOffset + destination.length));
  }
}

async function open<First extends FakeDriver>(first: First, options: FallbackOptions = {}) {
  const second = new FakeDriver({ name: "second" });
  const backend = new FallbackBackend(createBackend(first), createBackend(second), options);
  await backend.init();
  return { first, second, backend };
}

const sizes = { m: 1, n: 1, k: 1 };

async function bytesOf(
  backend: ComputeBackend,
  handle: Parameters<ComputeBackend["copyDtoH"]>[1],
  length = 4,
) {
  const bytes = new Uint8Array(length);
  await backend.copyDtoH(bytes, handle);
  return [...bytes];
}

const computed = [0xee, 0xee, 0xee, 0xee];

describe("FallbackBackend", () => {
  it("runs on the second backend what the first lacks, with the contents of the operands", async () => {
    for (const driver of [new Lacking(), new ReadsNow()]) {
      const { first, second, backend } = await open(driver);
      const events: FallbackEvent[] = [];
      backend.onFallback((event) => events.push(event));
      const [a, b, c, d] = [backend.alloc(4), backend.alloc(8), backend.alloc(4), backend.alloc(4)];
      backend.copyHtoD(a, Uint8Array.of(1, 2, 3, 4));
      backend.copyHtoD(b, Uint8Array.of(5, 6, 7, 8, 9, 10, 11, 12));
      backend.gemm({ ...sizes, a, b: { handle: b, byteOffset: 4 }, c });
      backend.softmax({ kind: "softmax", shape: [1], axis: 0, input: c, output: d });
      assert.deepEqual(await bytesOf(backend, d), computed);
      assert.deepEqual(
        second.runs.map(({ operation }) => operation),
        ["gemm"],
      );
      assert.deepEqual(
        first.runs.map(({ operation }) => operation),
        ["softmax"],
      );
      const { a: readA, b: readB } = second.runs[0]!.problem as Record<
        "a" | "b",
        { memory: { bytes: Uint8Array } }
      >;
      assert.deepEqual([...readA.memory.bytes], [1, 2, 3, 4]);
      assert.deepEqual([...readB.memory.bytes], [5, 6, 7, 8, 9, 10, 11, 12]);
      // c was blank, so it needed no move.
      assert.deepEqual(events, [{ operation: "gemm", moves: 2, movedBytes: 12 }]);
      assert.deepEqual(backend.report(), {
        operations: [
          { operation: "gemm", first: 0, second: 1, moves: 2, movedBytes: 12 },
          { operation: "softmax", first: 1, second: 0, moves: 1, movedBytes: 4 },
        ],
        bytesToFirst: 4,
        bytesToSecond: 12,
      });
      for (const handle of [a, b, c, d]) backend.free(handle);
      assert.equal(first.live.size + second.live.size, 0);
      await backend.dispose();
      assert.deepEqual([first.closed, second.closed], [1, 1]);
    }
  });

  it("leaves contents where they were written, and takes copies and fills to them", async () => {
    const { first, second, backend } = await open(new ReadsNow());
    const [a, c] = [backend.alloc(8), backend.alloc(8)];
    backend.gemm({ ...sizes, a, b: a, c });
    backend.fill({ handle: c, byteOffset: 4 }, 1, 4, "u8");
    backend.copyDtoD(a, c, 8);
    assert.deepEqual(await bytesOf(backend, a, 8), [...computed, 1, 1, 1, 1]);
    assert.deepInclude(backend.report(), { bytesToFirst: 0, bytesToSecond: 0 });
    // Contents that are replaced as a whole come back.
    backend.fill(c, 2, 8, "u8");
    assert.isTrue(first.calls.includes("fill 0 8 2020202"));
    assert.isFalse(second.calls.includes("fill 0 8 2020202"));
    await backend.dispose();
  });

  it("carries out in order what was called while contents are read, as it was called", async () => {
    const { first, second, backend } = await open(new Lacking());
    const reading = gate();
    first.reading = () => reading.promise;
    const [a, c] = [backend.alloc(4), backend.alloc(4)];
    backend.fill(a, 7, 4, "u8");
    const args = { ...sizes, a, b: a, c };
    backend.gemm(args);
    args.c = a;
    const host = Uint8Array.of(1, 2, 3, 4);
    const later = bytesOf(backend, c);
    backend.copyHtoD(c, host);
    host.fill(9);
    const last = bytesOf(backend, c);
    backend.free(a);
    throws("INVALID_HANDLE", () => backend.free(a));
    throws("INVALID_HANDLE", () => backend.gemm({ ...sizes, a, b: c, c }));
    throws("INVALID_ARGUMENT", () => backend.gemm({ ...sizes, m: -1, a: c, b: c, c }));
    throws("OUT_OF_BOUNDS", () => backend.fill(c, 0, 5, "u8"));
    throws("BUSY", () => backend.native(c));
    throws("UNSUPPORTED", () => backend.copyDtoHSync(host, c));
    assert.lengthOf(second.runs, 0);
    reading.open();
    assert.deepEqual(await later, computed);
    assert.deepEqual(await last, [1, 2, 3, 4]);
    await backend.synchronize();
    assert.deepInclude(backend.memory(), { liveAllocations: 1, liveBytes: 4, peakBytes: 8 });
    assert.equal(first.live.size, 1);
    backend.native(c);
    await backend.dispose();
  });

  it("reads a slice as it was at the call, although the call has to wait", async () => {
    const { first, second, backend } = await open(new Lacking());
    const reading = gate();
    first.reading = () => reading.promise;
    const [a, c] = [backend.alloc(8), backend.alloc(4)];
    backend.fill(a, 7, 8, "u8");
    const slice = { handle: a, byteOffset: 4 };
    backend.gemm({ ...sizes, a: slice, b: a, c });
    slice.byteOffset = 0;
    slice.handle = c;
    reading.open();
    await backend.synchronize();
    const { a: read } = second.runs[0]!.problem as { a: { byteOffset: number } };
    assert.equal(read.byteOffset, 4);
    await backend.dispose();
  });

  it("refuses what neither backend has", async () => {
    const backend = new FallbackBackend(createBackend(new Lacking()), createBackend(new Lacking()));
    await backend.init();
    const a = backend.alloc(4);
    assert.isTrue(backend.supports("softmax"));
    assert.isFalse(backend.supports("gemm"));
    throws("UNSUPPORTED", () => backend.gemm({ ...sizes, a, b: a, c: a }));
    await backend.dispose();
  });

  it("reports the failure of a call that had to wait, and goes on", async () => {
    const { second, backend } = await open(new Lacking());
    const errors: string[] = [];
    backend.onError(({ code }) => errors.push(code));
    const [a, c] = [backend.alloc(4), backend.alloc(4)];
    backend.fill(a, 7, 4, "u8");
    second.allocating = () => {
      throw new Error("full");
    };
    throws("DEVICE_ERROR", () => backend.gemm({ ...sizes, a, b: a, c }));
    second.allocating = () => {};
    backend.gemm({ ...sizes, a, b: a, c });
    second.allocating = () => {
      throw new Error("full");
    };
    const d = backend.alloc(4);
    backend.gemm({ ...sizes, a, b: d, c });
    await rejects("DEVICE_ERROR", backend.synchronize());
    assert.deepEqual(errors, ["DEVICE_ERROR"]);
    assert.deepEqual(await bytesOf(backend, c), computed);
    await backend.dispose();
  });

  it("moves contents although an older fault is reported meanwhile, which is for the next promise", async () => {
    for (const driver of [new Lacking(), new ReadsNow()]) {
      const { first, second, backend } = await open(driver);
      const [a, c] = [backend.alloc(4), backend.alloc(4)];
      backend.fill(a, 7, 4, "u8");
      first.events!.error("broken" as never);
      backend.gemm({ ...sizes, a, b: a, c });
      await rejects("DEVICE_ERROR", backend.synchronize());
      assert.lengthOf(second.runs, 1);
      assert.deepEqual(await bytesOf(backend, c), computed);
      await backend.dispose();
    }
  });

  for (const side of ["first", "second"] as const)
    it(`loses all with its ${side} backend, and opens again`, async () => {
      const { backend, ...drivers } = await open(new Lacking());
      const losses: string[] = [];
      backend.onLost(({ code }) => losses.push(code));
      const [a, c] = [backend.alloc(4), backend.alloc(4)];
      backend.gemm({ ...sizes, a, b: a, c });
      const reading = gate();
      drivers.first.reading = () => reading.promise;
      backend.fill(a, 7, 4, "u8");
      backend.gemm({ ...sizes, a, b: a, c });
      const read = bytesOf(backend, c);
      drivers[side].events!.lost("gone");
      await rejects("DEVICE_LOST", read);
      assert.equal(backend.state, "lost");
      assert.deepEqual(losses, ["DEVICE_LOST"]);
      throws("DEVICE_LOST", () => backend.alloc(4));
      assert.deepInclude(backend.memory(), {
        liveAllocations: 0,
        liveBytes: 0,
        reservedBytes: 0,
        peakBytes: 8,
      });
      reading.open();
      await backend.init();
      assert.equal(backend.state, "open");
      assert.equal(drivers.first.live.size + drivers.second.live.size, 0, "the other backend holds nothing");
      throws("INVALID_HANDLE", () => backend.free(a));
      // What failed with the device is not a fault of the fresh one.
      await settle();
      await backend.synchronize();
      await backend.dispose();
    });

  it("can be disposed of while contents are read", async () => {
    const { first, second, backend } = await open(new Lacking());
    first.reading = () => new Promise(() => {});
    const a = backend.alloc(4);
    backend.fill(a, 7, 4, "u8");
    backend.gemm({ ...sizes, a, b: a, c: backend.alloc(4) });
    const read = bytesOf(backend, a);
    const disposed = backend.dispose();
    await rejects("DISPOSED", read);
    await disposed;
    await settle();
    assert.deepEqual([first.closed, second.closed, second.runs.length], [1, 1, 0]);
    throws("DISPOSED", () => backend.alloc(4));
    await rejects("DISPOSED", backend.init());
  });

  it("warns once, with the counts, if the same contents go back and forth", async () => {
    const warnings: string[] = [];
    const warn = (message: string) => warnings.push(message);
    const { backend } = await open(new ReadsNow(), { warnAfterMoves: 3, warn });
    const [a, c] = [backend.alloc(4), backend.alloc(4)];
    for (let i = 0; i < 4; i++) {
      backend.gemm({ ...sizes, a, b: a, c });
      backend.binary({ kind: "add", n: 1, a: c, b: c, output: c });
      await backend.synchronize();
      assert.lengthOf(warnings, i < 1 ? 0 : 1, `after ${i}`);
    }
    assert.match(warnings[0]!, /4 bytes was moved 3 times .*fake and second.*gemm: 1 moves, 4 bytes/);
    await backend.dispose();
  });

  it("checks what it is made of, and can be initialised after a failure", async () => {
    const [first, second] = [new Lacking(), new FakeDriver()];
    const made = createBackend(first);
    throws("INVALID_ARGUMENT", () => new FallbackBackend(made, made), "second");
    throws("INVALID_ARGUMENT", () => new FallbackBackend(made, undefined as never), "second");
    const other = createBackend(second);
    throws(
      "INVALID_ARGUMENT",
      () => new FallbackBackend(made, other, { warnAfterMoves: 0 }),
      "warnAfterMoves",
    );
    throws("INVALID_ARGUMENT", () => new FallbackBackend(made, other, { warn: 3 as never }), "warn");
    throws("INVALID_ARGUMENT", () => new FallbackBackend(made, other, { warning: 1 } as never));
    const backend = new FallbackBackend(made, other);
    throws("NOT_INITIALIZED", () => backend.alloc(4));
    throws("NOT_INITIALIZED", () => backend.capabilities);
    second.opening = () => Promise.reject(new Error("no"));
    await rejects("UNSUPPORTED", backend.init());
    assert.equal(backend.state, "new");
    second.opening = async () => {};
    await backend.init();
    assert.equal(backend.state, "open");
    await backend.dispose();
  });

  it("promises no more than both backends do", async () => {
    const [first, second] = [new Lacking(), new FakeDriver()];
    const declare = (driver: FakeDriver, more: object): void => {
      const opened = driver.open.bind(driver);
      driver.open = async (events) => {
        const description = await opened(events);
        const numerics = {
          ...description.numerics,
          ...("numerics" in more ? (more.numerics as object) : {}),
        };
        return { ...description, ...more, numerics };
      };
    };
    declare(first, {
      numerics: { nan: "unspecified" },
      accuracy: {
        unary: { sin: [{ below: 1, units: 2 }, { units: 3 }], exp: [{ units: 1 }] },
        binary: { div: 2 },
      },
    });
    declare(second, {
      numerics: { deterministic: false },
      accuracy: {
        unary: { sin: [{ below: 0, units: 4 }, { below: 1, units: 1 }, { units: 1 }] },
        binary: { div: 3 },
      },
    });
    const backend = new FallbackBackend(createBackend(first), createBackend(second));
    await backend.init();
    const { numerics, accuracy } = backend.capabilities;
    assert.deepInclude(numerics, { nan: "unspecified", infinity: "kept", deterministic: false });
    assert.deepEqual(accuracy, {
      unary: { sin: [{ below: 0, units: 4 }, { below: 1, units: 2 }, { units: 3 }] },
      binary: { div: 3 },
    });
    await backend.dispose();
  });

  it("stands over a SwitchableBackend that swaps, and under one", async () => {
    const lackingProvider = (name: string) => ({
      ...fakeProvider(name),
      create: () => createBackend(new Lacking()),
    });
    const below = new SwitchableBackend(new BackendRegistry([lackingProvider("a"), lackingProvider("b")]));
    const over = new FallbackBackend(below, createBackend(new FakeDriver()));
    await over.init();
    const [a, c] = [over.alloc(4), over.alloc(4)];
    over.copyHtoD(a, Uint8Array.of(1, 2, 3, 4));
    const swapped = below.use("b");
    over.gemm({ ...sizes, a, b: a, c });
    assert.deepEqual(await bytesOf(over, c), computed);
    await swapped;
    assert.deepEqual(await bytesOf(over, a), [1, 2, 3, 4]);
    await over.dispose();

    const provider = fakeProvider("pair");
    const create = () => new FallbackBackend(createBackend(new Lacking()), createBackend(new FakeDriver()));
    const pair = { ...provider, create };
    const switchable = new SwitchableBackend(new BackendRegistry([pair, fakeProvider("plain")]));
    await switchable.init();
    const handle = switchable.alloc(4);
    switchable.gemm({ ...sizes, a: switchable.alloc(4), b: switchable.alloc(4), c: handle });
    await switchable.use("plain");
    assert.deepEqual(await bytesOf(switchable, handle), computed);
    await switchable.dispose();
  });

  it("replays recordings, whose calls run where they can", async () => {
    const { second, backend } = await open(new Lacking());
    const [a, c] = [backend.alloc(4), backend.alloc(4)];
    const recording = backend.record(() => {
      backend.fill(a, 3, 4, "u8");
      backend.gemm({ ...sizes, a, b: a, c });
    });
    recording.run();
    recording.run();
    assert.deepEqual(await bytesOf(backend, c), computed);
    assert.lengthOf(second.runs, 2);
    recording.dispose();
    await backend.dispose();
  });
});
