// Tags: proof, pure
import {
  BackendError,
  type ComputeBackend,
  createBackend,
  type DriverEvents,
  type Operand,
  upload,
} from "@backplane/core";
import { assert } from "chai";
import { after, before, describe, it } from "mocha";
import {
  CompareBackend,
  type CompareOptions,
  checkCall,
  createReferenceBackend,
  type Divergence,
  describeBackend,
  mutants,
} from "#src/index.js";
import { loseReferenceDevice, ReferenceDriver } from "#src/reference.js";
import { mutant, noPromises, withPromises } from "./support/backends.js";
import { briefestLaws, fewCallLaws } from "./support/brief-laws.js";

/** A reference whose reads must be awaited. */
function awaited(): ComputeBackend {
  return createBackend(awaitedReads(new ReferenceDriver()));
}

function awaitedReads(driver: ReferenceDriver): ReferenceDriver {
  const { readSync } = driver;
  driver.read = async (...given) => readSync.apply(driver, given);
  return Object.assign(driver, { readSync: undefined }) as never;
}

async function open(first: ComputeBackend, second = createReferenceBackend(), options: CompareOptions = {}) {
  const found: Divergence[] = [];
  const backend = new CompareBackend(first, second, { warn: () => {}, ...options });
  backend.onDivergence((divergence) => found.push(divergence));
  await backend.init();
  return { backend, found };
}

const size = { m: 2, n: 3, k: 5 };

function product(backend: ComputeBackend): Operand {
  const a = upload(
    backend,
    Float32Array.from({ length: 10 }, (_, i) => i + 1),
  );
  const b = upload(
    backend,
    Float32Array.from({ length: 15 }, (_, i) => i - 4),
  );
  const c = { handle: backend.alloc(256), byteOffset: 128 };
  backend.gemm({ ...size, a, b, c });
  return c;
}

describe("CompareBackend", () => {
  it("reports nothing where both backends are right, however they are read", async () => {
    for (const first of [createReferenceBackend, awaited])
      for (const second of [createReferenceBackend, awaited]) {
        const { backend, found } = await open(first(), second());
        product(backend);
        await backend.synchronize();
        assert.deepEqual(found, []);
        assert.deepInclude(backend.report(), { calls: 4, compared: 4, skipped: [], divergences: 0 });
        await backend.dispose();
      }
  });

  it("reports the first call that is wrong, on which backend, where, and how to see it again", async () => {
    const wrong = mutant("drops the last k");
    for (const isFirst of [true, false]) {
      const pair: [ComputeBackend, ComputeBackend] = [wrong(), createReferenceBackend()];
      if (!isFirst) pair.reverse();
      const warnings: string[] = [];
      const { backend, found } = await open(...pair, { warn: (message) => warnings.push(message) });
      const c = product(backend);
      backend.fill(c, 0, 6);
      product(backend);
      await backend.synchronize();
      assert.lengthOf(found, 2);
      const [{ message, replay, ...divergence }] = found as [Divergence];
      // C = sum over k of A B, without its last term.
      assert.deepInclude(divergence, {
        ...{ call: 3, operation: "gemm", argument: "c", dtype: "f32", wrongElements: 6 },
        ...{ wrong: isFirst ? "first" : "second" },
      });
      const [got, right] = isFirst
        ? [divergence.first, divergence.second]
        : [divergence.second, divergence.first];
      assert.equal(right, divergence.exact);
      assert.isAbove(Math.abs(got! - divergence.exact), divergence.allowed);
      assert.deepInclude(divergence.args, size);
      assert.deepEqual(warnings, [message]);
      assert.equal(backend.report().first?.message, message);
      assert.match(message, /gemm, call 3: element \d of c is wrong on .*, the worst of 6/);

      // Both the object and the line lead to the same element.
      const [, line] = /checkCall\(create, (.*)\)$/m.exec(message)!;
      for (const again of [replay, new Function(`return ${line}`)()]) {
        const seen = await checkCall(wrong, again);
        assert.deepInclude(seen, {
          ...{ wrong: "first", element: divergence.element, exact: divergence.exact, first: got! },
        });
        assert.isUndefined(await checkCall(createReferenceBackend, again));
      }
      await backend.dispose();
    }
  });

  it("lets no difference spread: what follows a wrong call is compared by itself", async () => {
    const { backend, found } = await open(mutant("drops the last k")());
    const c = product(backend);
    const d = backend.alloc(24);
    backend.unary({ kind: "neg", n: 6, input: c, output: d });
    backend.copyDtoD({ handle: d, byteOffset: 0 }, c, 24);
    await backend.synchronize();
    assert.deepEqual(
      found.map(({ operation }) => operation),
      ["gemm"],
    );
    await backend.dispose();
  });

  it("sees bytes change that are no part of a result", async () => {
    const { backend, found } = await open(mutant("writes one element past the end")());
    const c = backend.alloc(256);
    backend.fill(c, 1, 64);
    const a = upload(backend, Float32Array.of(1, 2, 3, 4));
    backend.gemm({ m: 2, n: 3, k: 1, a, b: a, c: { handle: c, byteOffset: 128 } });
    await backend.synchronize();
    const [{ argument, element, dtype, wrong }] = found as [Divergence];
    assert.deepEqual({ argument, dtype, wrong }, { argument: "c", dtype: undefined, wrong: "first" });
    assert.isAtLeast(element, 24);
    assert.isBelow(element, 28);
    await backend.dispose();
  });

  it("sees memory that is not zero, and transfers that are not whole", async () => {
    // Each by the method that is at fault.
    const faults: Readonly<Record<string, (driver: ReferenceDriver) => void>> = {
      alloc: (driver) => {
        const { alloc } = driver;
        driver.alloc = (bytes) => alloc.call(driver, bytes).fill(7, bytes - 1);
      },
      copyHtoD: (driver) => {
        const { write } = driver;
        driver.write = (to, at, bytes) => write.call(driver, to, at, bytes.subarray(1));
      },
      copyDtoD: (driver) => {
        const { copy } = driver;
        driver.copy = (to, from) =>
          copy.call(driver, { ...to, byteLength: 4 }, { ...from, byteLength: from.byteLength - 4 });
      },
      fill: (driver) => {
        const { fill } = driver;
        driver.fill = (region, pattern) => fill.call(driver, region, pattern ^ 1);
      },
    };
    for (const [method, spoil] of Object.entries(faults)) {
      const driver = new ReferenceDriver();
      spoil(driver);
      const { backend, found } = await open(createBackend(driver));
      const a = upload(backend, Float32Array.of(1, 2, 3, 4));
      const b = backend.alloc(16);
      backend.fill(b, 5, 4);
      backend.copyDtoD(b, a, 16);
      await backend.synchronize();
      assert.equal(found[0]?.operation, method);
      assert.isTrue(found.every(({ operation }) => operation === method));
      const again = await checkCall(() => {
        const other = new ReferenceDriver();
        spoil(other);
        return createBackend(other);
      }, found[0]!.replay);
      assert.equal(again?.wrong, "first");
      await backend.dispose();
    }
  });

  it("finds what the mutants of operations do", async () => {
    // A few of each kind of defect that small calls show.
    const names = ["ignores ldc", "reads C where beta is 0", "applies alpha to C as well"];
    for (const { create } of mutants.filter(({ name }) => names.includes(name))) {
      const { backend, found } = await open(create());
      const [a, b] = [
        upload(backend, Float32Array.of(1, 2, 3, 4)),
        upload(backend, Float32Array.of(5, 6, 7, 8)),
      ];
      const c = upload(backend, Float32Array.of(Number.NaN, 1, 2, Number.NaN, 3, 4));
      backend.gemm({ m: 2, n: 2, k: 2, alpha: 2, beta: 0, a, b, c, ldc: 3 });
      backend.gemm({ m: 2, n: 2, k: 2, alpha: 2, beta: 3, a, b, c, ldc: 3 });
      await backend.synchronize();
      assert.isAbove(found.length, 0);
      assert.isTrue(found.every(({ wrong, operation }) => wrong === "first" && operation === "gemm"));
      await backend.dispose();
    }
  });

  it("does not report what may be anything by what the two declare", async () => {
    // This one keeps all, and differs from one that keeps nothing in just what is undefined.
    const driver = new ReferenceDriver();
    const unary = driver.kernels.unary!;
    Object.assign(driver, {
      kernels: {
        ...driver.kernels,
        unary: {
          ...unary,
          run(problem: { kind: string; output: { memory: Uint8Array; byteOffset: number } } & object) {
            unary.run(problem as never);
            const { memory, byteOffset } = problem.output;
            const results = new Float32Array(memory.buffer, byteOffset, 4);
            for (let i = 0; i < 4; i++)
              if (!Number.isFinite(results[i]!) || Math.abs(results[i]!) < 2 ** -126) results[i] = 0;
          },
        },
      },
    });
    const loose = withPromises(() => createBackend(driver), noPromises)();
    const { backend, found } = await open(loose);
    const inputs = [
      Float32Array.of(Number.NaN, Infinity, -Infinity, 1),
      Float32Array.of(2 ** -140, -(2 ** -140), -0, 1),
      Float32Array.of(200, -200, 3e38, 2),
    ];
    const output = backend.alloc(16);
    for (const input of inputs)
      for (const kind of ["neg", "exp", "square"] as const)
        backend.unary({ kind, n: 4, input: upload(backend, input), output });
    await backend.synchronize();
    assert.deepEqual(found, []);
    // What is defined is compared all the same.
    const [{ first, element }] = await (async () => {
      const strict = await open(createBackend(driver));
      const b = strict.backend;
      b.unary({ kind: "neg", n: 4, input: upload(b, inputs[1]!), output: b.alloc(16) });
      await b.dispose();
      return strict.found as [Divergence];
    })();
    assert.deepEqual([Math.abs(first), element < 3], [0, true]);
    await backend.dispose();
  });

  it("knows that whole numbers wrap", async () => {
    const { backend, found } = await open(createReferenceBackend());
    const large = upload(backend, Uint32Array.of(2 ** 31, 2 ** 32 - 1));
    const indices = upload(backend, Int32Array.of(0, 0));
    const output = backend.alloc(4);
    backend.scatter({
      ...{ kind: "add", dtype: "u32", shape: [1], indexShape: [2] },
      ...{ indices, updates: large, output },
    });
    await backend.synchronize();
    assert.deepEqual(found, []);
    await backend.dispose();
  });

  it("compares one call of so many, and leaves out what is too large, or has no formula", async () => {
    const { backend } = await open(createReferenceBackend(), createReferenceBackend(), { every: 2 });
    product(backend);
    await backend.synchronize();
    assert.deepInclude(backend.report(), { calls: 4, compared: 2 });
    await backend.dispose();

    const small = await open(createReferenceBackend(), createReferenceBackend(), {
      mostBytes: 200,
      mostFlops: 10,
    });
    product(small.backend);
    assert.deepEqual(
      small.backend.report().skipped.map(({ operation, calls }) => [operation, calls]),
      [
        ["alloc", 1],
        ["gemm", 1],
      ],
    );
    await small.backend.dispose();
  });

  it("compares with the formula alone what the second backend lacks", async () => {
    const driver = new ReferenceDriver();
    Object.assign(driver, { kernels: {} });
    const { backend, found } = await open(mutant("drops the last k")(), createBackend(driver));
    product(backend);
    await backend.synchronize();
    assert.deepInclude(found[0]!, { operation: "gemm", wrong: "first", second: undefined });
    assert.match(found[0]!.message, /did not make the call/);
    await backend.dispose();
  });

  it("compares each call of a recording, at each run", async () => {
    const { backend, found } = await open(mutant("drops the last k")());
    const c = backend.alloc(4);
    const a = upload(backend, new Float32Array(5).fill(1));
    const recording = backend.record(() => backend.gemm({ m: 1, n: 1, k: 5, a, b: a, c }));
    assert.lengthOf(found, 0);
    recording.run();
    recording.run();
    assert.lengthOf(found, 2);
    recording.dispose();
    await backend.dispose();
  });

  it("keeps a fault that its own reads meet for the next promise of the caller", async () => {
    class Faulty extends ReferenceDriver {
      fault: (error: BackendError) => void = () => {};
      override open(events: DriverEvents): ReturnType<ReferenceDriver["open"]> {
        this.fault = (error) => events.error(error);
        return super.open(events);
      }
    }
    for (const isAwaited of [false, true]) {
      const driver = new Faulty();
      if (isAwaited) awaitedReads(driver);
      const { backend } = await open(createBackend(driver));
      const handle = backend.alloc(16);
      driver.fault(new BackendError("DEVICE_ERROR", "a fault of the device"));
      backend.fill(handle, 1, 4);
      const error = await backend.copyDtoH(new Float32Array(4), handle).then(
        () => undefined,
        (reason: unknown) => reason as { readonly code: string; readonly message: string },
      );
      assert.equal(error?.code, "DEVICE_ERROR");
      assert.match(error!.message, /a fault of the device/);
      await backend.synchronize();
      await backend.dispose();
    }
  });

  it("goes on alone when the second backend is lost", async () => {
    const second = createReferenceBackend();
    const { backend } = await open(createReferenceBackend(), second);
    loseReferenceDevice(second);
    const c = product(backend);
    const results = new Float32Array(6);
    await backend.copyDtoH(results, c);
    assert.equal(results[0], 60);
    assert.equal(backend.state, "open");
    await backend.dispose();
    assert.equal(second.state, "disposed");
  });

  it("checks what it is made of", () => {
    const first = createReferenceBackend();
    assert.throws(() => new CompareBackend(first, first), /second is the first backend/);
    assert.throws(() => new CompareBackend(first, undefined as never), /second is undefined/);
    assert.throws(
      () => new CompareBackend(first, createReferenceBackend(), { every: 0 }),
      /every is 0; allowed: whole numbers from 1 to 2\^53 - 1/,
    );
  });

  it("refuses malformed replays", async () => {
    const replay = { operation: "gemm", args: {}, memory: ["0"] };
    for (const bad of [replay, { ...replay, memory: [], operation: "gem" }, undefined]) {
      const error = await checkCall(createReferenceBackend, bad as never).then(
        () => undefined,
        (error: unknown) => error as { readonly code: string },
      );
      assert.equal(error?.code, "INVALID_ARGUMENT");
    }
  });
});

for (const [way, inner, chosen] of [
  ["that are read at once", createReferenceBackend, fewCallLaws],
  ["that must be awaited", awaited, briefestLaws],
] as const) {
  const made: CompareBackend[] = [];
  const lost = new WeakMap<ComputeBackend, ComputeBackend>();
  describeBackend(
    {
      name: `a comparison of backends ${way}`,
      create() {
        const first = inner();
        const backend = new CompareBackend(first, inner());
        lost.set(backend, first);
        made.push(backend);
        return backend;
      },
      loseDevice: (backend) => loseReferenceDevice(lost.get(backend)!),
      options: { mode: "quick", runs: 1, laws: chosen },
    },
    { describe, it, before, after },
  );

  describe(`The comparison of backends ${way}`, () => {
    it("has found nothing in all this that diverges", () => {
      const reports = made.map((backend) => backend.report());
      assert.isAbove(
        reports.reduce((sum, { compared }) => sum + compared, 0),
        1000,
      );
      assert.deepEqual(
        reports.flatMap(({ first }) => first?.message ?? []),
        [],
      );
      assert.deepEqual(
        reports.flatMap(({ skipped }) => skipped.filter(({ reason }) => reason.includes("failed"))),
        [],
      );
    });
  });
}
