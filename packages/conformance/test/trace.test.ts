// Tags: proof, pure
import {
  BackendError,
  BackendRegistry,
  type ComputeBackend,
  type DeviceHandle,
  defineOperation,
  type ReplayOptions,
  replayTrace,
  SwitchableBackend,
  TraceBackend,
  type TraceReport,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { after, before, describe, it } from "mocha";
import { CompareBackend, createReferenceBackend, describeBackend } from "#src/index.js";
import { loseReferenceDevice } from "#src/reference.js";
import { mutant } from "./support/backends.js";
import { briefestLaws, fewCallLaws } from "./support/brief-laws.js";

/** A sink that keeps all, and what it has. */
class Kept {
  readonly chunks: Uint8Array[] = [];
  readonly sink = (chunk: Uint8Array): void => void this.chunks.push(chunk);

  get bytes(): Uint8Array {
    return Uint8Array.from(this.chunks.flatMap((chunk) => [...chunk]));
  }
}

async function traced(
  program: (backend: TraceBackend) => Promise<void> | void,
  inner = createReferenceBackend(),
): Promise<Uint8Array> {
  const kept = new Kept();
  const backend = new TraceBackend(inner, kept.sink);
  await backend.init();
  await program(backend);
  await backend.dispose();
  return kept.bytes;
}

async function replayed(
  trace: Parameters<typeof replayTrace>[0],
  backend: ComputeBackend = createReferenceBackend(),
  options: ReplayOptions = {},
): Promise<TraceReport> {
  await backend.init();
  try {
    const report = await replayTrace(trace, backend, options);
    assert.equal(backend.memory().liveAllocations, 0);
    return report;
  } finally {
    await backend.dispose();
  }
}

async function failure(work: Promise<unknown>): Promise<BackendError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  assert.instanceOf(error, BackendError);
  return error as BackendError;
}

/** Every kind of call, in an order that has a result. */
async function everything(backend: ComputeBackend): Promise<readonly number[]> {
  const [a, b] = [
    upload(backend, Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)),
    upload(backend, new Float32Array(64).fill(0.5)),
  ];
  const again = upload(backend, new Float32Array(64).fill(0.5));
  const c = backend.alloc(64);
  backend.gemm({ m: 2, n: 2, k: 5, alpha: -0.25, a, b: a, c: { handle: c, byteOffset: 16 } });
  backend.binary({ kind: "add", n: 4, a, b: { scalar: -0 }, output: c });
  backend.fill({ handle: c, byteOffset: 0 }, 7, 2);
  backend.copyDtoD({ handle: c, byteOffset: 32 }, { handle: c, byteOffset: 16 }, 16);
  backend.random({ kind: "bits", count: 4, seed: 2n ** 60n, offset: 3, output: b });
  const step = backend.record(
    (vary: (part: (values: { place: number }) => void) => void) => {
      backend.unary({ kind: "square", n: 2, input: a, output: a });
      vary(({ place }) => backend.copyDtoD({ handle: c, byteOffset: 4 * place }, a, 4));
    },
    { place: 12 },
  );
  step.run();
  step.run({ values: { place: 13 }, operands: new Map([[a, again]]) });
  step.run();
  step.dispose();
  backend.flush();
  backend.trim();
  backend.free(again);
  await backend.synchronize();
  const [floats, words] = [new Float32Array(16), new Uint32Array(4)];
  await Promise.all([backend.copyDtoH(floats, c), backend.copyDtoH(words, b)]);
  const single = new Float32Array(1);
  backend.copyDtoHSync(single, { handle: a, byteOffset: 4 });
  backend.free(a);
  return [...floats, ...words, ...single];
}

describe("TraceBackend", () => {
  let expected: readonly number[] = [];
  let trace: Uint8Array = new Uint8Array(0);
  before(async () => {
    const plain = createReferenceBackend();
    await plain.init();
    expected = await everything(plain);
    await plain.dispose();
    trace = await traced(async (backend) => assert.deepEqual(await everything(backend), expected));
  });

  it("writes what can be made again, in any pieces, on any backend", async () => {
    const pieces = (size: number) =>
      Array.from({ length: Math.ceil(trace.length / size) }, (_, i) =>
        trace.subarray(i * size, (i + 1) * size),
      );
    async function* stream(): AsyncGenerator<Uint8Array> {
      yield* pieces(100);
    }
    for (const source of [trace, pieces(1), stream()]) {
      const report = await replayed(source, createReferenceBackend(), { tolerance: 0 });
      assert.deepEqual(report, {
        // Of the recording, two calls for each run.
        ...{ calls: 3 + 2 + 1 + 1 + 1 + 3 * 2, allocations: 4, reads: 3 },
        ...{ differing: [], largestDifference: 0, omitted: [], isCut: false },
      });
    }
    // The trace of a replay is the same calls again.
    const second = await traced(async (backend) => void (await replayTrace(trace, backend)));
    assert.deepEqual(
      await replayed(second, createReferenceBackend(), { tolerance: 0 }),
      await replayed(trace),
    );
  });

  it("writes equal contents once", async () => {
    const random = Uint8Array.from({ length: 5000 }, (_, i) => (i * i * 7919) >> 3);
    const sizes = await Promise.all(
      [1, 20].map(async (times) => {
        const bytes = await traced(async (backend) => {
          const handle = backend.alloc(random.length);
          for (let i = 0; i < times; i++) backend.copyHtoD(handle, random);
          await backend.copyDtoH(new Uint8Array(random.length), handle);
        });
        return bytes.length;
      }),
    );
    assert.isBelow(sizes[0]!, 5300);
    assert.isBelow(sizes[1]! - sizes[0]!, 500);
  });

  it("shows which reads differ on another backend, and how much, by the types that were computed", async () => {
    const report = await replayed(trace, mutant("drops the last k")());
    const [read] = report.differing;
    assert.deepInclude(read, { read: 0, dtype: "f32" });
    assert.isAbove(report.largestDifference, 2 ** -10);
    // Within the tolerance it is counted only.
    const loose = await replayed(trace, mutant("drops the last k")(), { tolerance: 100 });
    assert.deepEqual(loose.differing, []);
    assert.isAbove(loose.largestDifference, 2 ** -10);
    // A comparison under the replay says which call it is.
    const compare = new CompareBackend(mutant("drops the last k")(), createReferenceBackend(), {
      warn: () => {},
    });
    await replayed(trace, compare);
    assert.equal(compare.report().first?.operation, "gemm");
  });

  it("is refused with the reason if it is cut off anywhere, and can be taken as far as it goes", async () => {
    for (let length = 0; length < trace.length; length += length < 300 ? 1 : 37) {
      const cut = trace.subarray(0, length);
      const error = await failure(replayed(cut));
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.match(error.message, /^replayTrace: source was cut off/);
      if (length >= 8)
        assert.isTrue((await replayed(cut, createReferenceBackend(), { allowCut: true })).isCut);
    }
  });

  it("is refused if it is of something else, of another version, or damaged", async () => {
    const version = trace.slice();
    version[7] = 9;
    for (const [source, reason] of [
      [new TextEncoder().encode("a text that is no trace"), /is no trace: it does not begin as one/],
      [version, /is a trace of version 9; this reads version 1/],
      [Uint8Array.from([...trace, ...trace.subarray(8)]), /goes on after its end/],
      [5, /is neither bytes nor gives any/],
      [[5], /gives something other than bytes/],
    ] as const) {
      const error = await failure(replayed(source as Uint8Array));
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.match(error.message, reason);
    }
    let refused = 0;
    for (let i = 8; i < trace.length; i += 5) {
      const damaged = trace.slice();
      damaged[i]! ^= 1 + (i % 255);
      // Other contents or arguments may pass. All else is an error of ours, whatever is damaged.
      const error = await replayed(damaged).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      if (error === undefined) continue;
      assert.instanceOf(error, BackendError, `byte ${i}`);
      refused++;
    }
    assert.isAbove(refused, 50);
  });

  it("says in which call a backend refuses a replay, with the code", async () => {
    const driver = createReferenceBackend();
    await driver.init();
    driver.gemm = () => {
      throw new BackendError("UNSUPPORTED", "gemm: not here", { operation: "gemm" });
    };
    const error = await failure(replayTrace(trace, driver));
    assert.equal(error.code, "UNSUPPORTED");
    assert.match(error.message, /^replayTrace: after 4 calls, in gemm: gemm: not here/);
    assert.equal(driver.memory().liveAllocations, 0);
    await driver.dispose();
  });

  it("does not write calls that throw, and says what it could not see", async () => {
    const bytes = await traced(async (backend) => {
      assert.throws(() => backend.alloc(-1), /alloc: bytes/);
      assert.throws(() => backend.gemm({} as never));
      assert.throws(() => backend.free(5 as DeviceHandle));
      await failure(backend.copyDtoH(new Uint8Array(4), 5 as DeviceHandle));
      backend.native();
    });
    assert.deepInclude(await replayed(bytes), {
      ...{ calls: 0, allocations: 0, reads: 0 },
      omitted: [
        { operation: "copyDtoH", reason: "a handle is not from alloc() of the TraceBackend" },
        { operation: "native", reason: "what is done with native objects is not seen" },
      ],
    });
  });

  it("has operations that are not core's, which a replay is given", async () => {
    const twice = defineOperation({
      name: "twice",
      arguments: {
        n: { role: "extent" },
        input: { role: "reads", shape: "n" },
        output: { role: "writes", shape: "n" },
      },
      resolve: ({ n, input, output }, binder, read) => ({
        n: read.extent("n", n),
        input: read.region(binder, "input", input, n, "f32"),
        output: read.region(binder, "output", output, n, "f32"),
      }),
      flops: ({ n }) => n,
    });
    const calls: object[] = [];
    const withTwice = (): ComputeBackend => {
      const backend = createReferenceBackend();
      const { run } = backend;
      backend.run = ((operation: unknown, args: object) => {
        if (operation === twice) calls.push(args);
        else run.call(backend, operation as never, args as never);
      }) as never;
      return backend;
    };
    const bytes = await traced((backend) => {
      const input = backend.alloc(8);
      backend.run(twice, { n: 2, input, output: { handle: input, byteOffset: 0 } });
    }, withTwice());
    await replayed(bytes, withTwice(), { operations: [twice] });
    assert.lengthOf(calls, 2);
    const error = await failure(replayed(bytes));
    assert.equal(error.code, "UNSUPPORTED");
    assert.match(error.message, /the operation twice, which is not core's/);
  });

  it("reports a sink that fails with the next promise, and goes on", async () => {
    for (const sink of [
      () => {
        throw new Error("the disk is full");
      },
      async () => {
        throw new Error("the disk is full");
      },
    ]) {
      const backend = new TraceBackend(createReferenceBackend(), sink);
      await backend.init();
      const handle = backend.alloc(8);
      const error = await failure(backend.synchronize());
      assert.match(error.message, /TraceBackend: the sink of the trace failed: the disk is full/);
      await backend.copyDtoH(new Uint8Array(8), handle);
      await backend.dispose();
    }
  });

  it("waits for a slow sink before synchronize and dispose resolve", async () => {
    let taken = 0;
    let given = 0;
    const backend = new TraceBackend(createReferenceBackend(), async ({ length }) => {
      given += length;
      await new Promise((resolve) => setImmediate(resolve));
      taken += length;
    });
    await backend.init();
    backend.alloc(8);
    await backend.synchronize();
    assert.isAbove(taken, 8);
    backend.alloc(8);
    await backend.dispose();
    assert.equal(taken, given);
  });

  it("checks what it is made of", () => {
    assert.throws(() => new TraceBackend(undefined as never, () => {}), /inner is undefined/);
    assert.throws(() => new TraceBackend(createReferenceBackend(), 5 as never), /sink is 5/);
  });
});

describe("Wrappers over each other", () => {
  const provider = (name: string) => ({
    ...{ name, create: createReferenceBackend },
    probe: async () => ({
      available: true as const,
      device: { kind: "cpu" as const, name, software: false },
    }),
  });

  it("trace, compare and swap at once", async () => {
    const switchable = new SwitchableBackend(
      new BackendRegistry([provider("one"), provider("two")] as never),
    );
    const compare = new CompareBackend(switchable, createReferenceBackend());
    const kept = new Kept();
    const backend = new TraceBackend(compare, kept.sink);
    await backend.init();
    const [a, c] = [upload(backend, Float32Array.of(1, 2, 3, 4)), backend.alloc(16)];
    const step = backend.record(() => backend.gemm({ m: 2, n: 2, k: 2, a, b: a, c, beta: 1 }));
    step.run();
    const swapped = switchable.use("two");
    step.run();
    backend.unary({ kind: "neg", n: 4, input: c, output: c });
    await swapped;
    step.run();
    const result = new Float32Array(4);
    await backend.copyDtoH(result, c);
    assert.deepEqual([...result], [-7, -10, -15, -22]);
    await backend.synchronize();
    assert.deepInclude(compare.report(), { divergences: 0, skipped: [], calls: 6, compared: 6 });
    await backend.dispose();
    assert.equal(switchable.state, "disposed");
    assert.deepInclude(await replayed(kept.bytes), { differing: [], reads: 1, calls: 5 });
  });
});

{
  const isOfOperation = /^\w+: /;
  const chosen = [
    ...briefestLaws,
    ...fewCallLaws.filter(({ topic, name }) => topic === "errors" && !isOfOperation.test(name)),
  ];
  const made: { readonly kept: Kept; isLost: boolean }[] = [];
  const lost = new WeakMap<ComputeBackend, { readonly inner: ComputeBackend; note: () => void }>();
  describeBackend(
    {
      name: "a trace",
      create() {
        const [inner, kept] = [createReferenceBackend(), new Kept()];
        const backend = new TraceBackend(inner, kept.sink);
        const one = { kept, isLost: false };
        made.push(one);
        lost.set(backend, {
          inner,
          note: () => {
            one.isLost = true;
          },
        });
        return backend;
      },
      loseDevice(backend) {
        const { inner, note } = lost.get(backend)!;
        note();
        loseReferenceDevice(inner);
      },
      options: { mode: "quick", runs: 1, laws: chosen },
    },
    { describe, it, before, after },
  );

  describe("The traces of the laws", () => {
    it("can all be made again, and find the same", async () => {
      let reads = 0;
      for (const { kept, isLost } of made) {
        // Of a backend that lost its device, later calls are on allocations that earlier ones know nothing of.
        if (isLost || kept.chunks.length === 0) continue;
        const report = await replayed(kept.chunks, createReferenceBackend(), { tolerance: 0 });
        assert.deepEqual(report.differing, []);
        reads += report.reads;
      }
      assert.isAbove(reads, 1000);
    });
  });
}
