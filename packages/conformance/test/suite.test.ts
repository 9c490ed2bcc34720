// Tags: proof, long
import { BackendError, type ComputeBackend } from "@backplane/core";
import { assert } from "chai";
import { integer } from "fast-check";
import {
  buildReport,
  checkCase,
  createReferenceBackend,
  describeBackend,
  type Law,
  type LawFailure,
  lawId,
  laws,
  type Runner,
  runLaws,
  runSuite,
  type SuiteOptions,
} from "#src/index.js";
import { literal } from "#src/literal.js";
import { planOf } from "#src/options.js";
import { settled, withPatience } from "#src/patience.js";
import { mutant, noPromises, withPromises } from "./support/backends.js";

const reference = (options: SuiteOptions) => ({ name: "reference", create: createReferenceBackend, options });

/** Does something by another clock. */
async function atTime<Result>(now: () => number, body: () => Promise<Result>): Promise<Result> {
  const own = performance.now;
  performance.now = now;
  try {
    return await body();
  } finally {
    performance.now = own;
  }
}

async function rejection(promise: Promise<unknown>): Promise<BackendError> {
  return promise.then(
    () => assert.fail("was accepted"),
    (error: BackendError) => error,
  );
}

describe("The options of the suite", () => {
  it("are checked before anything runs, with what is allowed", async () => {
    for (const [options, argument, message] of [
      [{ mode: "fast" }, "mode", /options\.mode is "fast"; allowed: quick, default, soak/],
      [{ grade: "loose" }, "grade", /must, tight/],
      [{ seed: 1.5 }, "seed", /whole numbers/],
      [{ run: 5 }, "run", /run is unknown \(is runs meant\?\); allowed: mode, seed/],
      [{ replay: { law: lawId(laws[0]!), seed: 1, paths: "0" } }, "replay.paths", /is path meant/],
      [{ runs: 0 }, "runs", /whole numbers from 1/],
      [{ runs: Number.NaN }, "runs", /options\.runs is NaN/],
      [{ operations: ["gem"] }, "operations", /gemm, batchedGemm/],
      [{ operations: [] }, "operations", /lists of gemm/],
      [{ dtypes: ["f64"] }, "dtypes", /f32, f16/],
      [{ law: "no such law" }, "laws", /at least one law/],
      [{ timeBudget: -1 }, "timeBudget", /above 0/],
      [{ patience: 0 }, "patience", /whole numbers from 1/],
      [{ timeBudget: Number.NaN }, "timeBudget", /above 0/],
      [{ shrink: "yes" }, "shrink", /true and false/],
      [{ replay: { law: "nonsense", seed: 1 } }, "replay", /laws on gemm f32/],
      [{ replay: { law: lawId(laws[0]!) } }, "replay", /"seed":1/],
      [{ replay: null }, "replay", /is null; allowed: objects/],
      [{ seed: 1n }, "seed", /options\.seed is 1n/],
    ] as const) {
      const error = await rejection(runSuite(reference(options as unknown as SuiteOptions)));
      assert.instanceOf(error, BackendError, String(error));
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.equal(error.argument, argument);
      assert.match(error.message, message);
    }
  });

  it("choose laws by operation, element type and text, and quick mode tries less of each", async () => {
    const chosen = planOf({ operations: ["conv2d"], dtypes: ["f16"], law: "TIGHT" }).laws.map(lawId);
    assert.deepEqual(chosen, ["conv2d f16: stays within the tight bound where rounding is to nearest"]);
    const filters: SuiteOptions = { operations: ["batchedGemm"], dtypes: ["f32"] };
    const [quick, whole] = await Promise.all([
      runSuite(reference({ ...filters, mode: "quick" })),
      runSuite(reference(filters)),
    ]);
    assert.deepEqual(
      quick.results.map(({ law }) => law),
      whole.results.map(({ law }) => law),
    );
    for (const [i, result] of quick.results.entries()) {
      assert.equal(result.status, "kept");
      assert.isAtMost(result.measurements.cases, whole.results[i]!.measurements.cases, lawId(result.law));
    }
    const total = ({ totals }: ReturnType<typeof buildReport>) => totals.cases;
    assert.isBelow(total(buildReport(quick)), total(buildReport(whole)) / 3);
  });
});

describe("A law", () => {
  it("is broken where it asks for cases by options that there are not", async () => {
    const law = (name: string, run: Law["run"]): Law => ({ topic: "unary", name, run });
    const found = await runLaws({
      name: "reference",
      create: createReferenceBackend,
      options: {
        laws: [
          law("random", ({ forAll }) => forAll(integer(), async () => {}, { run: 2 } as object)),
          law("fixed", ({ forEach }) => forEach([1], async () => {}, { qick: 1 } as object)),
        ],
      },
    });
    assert.deepEqual(
      found.map(({ status }) => status),
      ["broken", "broken"],
    );
    assert.match(String(found[0]!.error), /forAll: run is unknown \(is runs meant\?\)/);
    assert.match(String(found[1]!.error), /forEach: qick is unknown \(is quick meant\?\)/);
  });
});

describe("What hangs", () => {
  const never = () => new Promise<void>(() => {});
  const run = (law: Law["run"]) =>
    runLaws(reference({ laws: [{ topic: "unary", name: "hangs", run: law }], patience: 50 }));

  it("is a broken law, in a case and outside of one, and is not made smaller", async () => {
    let calls = 0;
    const hang = () => {
      calls++;
      return never();
    };
    const laws: readonly (readonly [Law["run"], RegExp])[] = [
      [hang, /unary: hangs: its promise is still open after 200 ms/],
      [({ forEach }) => forEach([1, 2], hang), /the case: its promise is still open/],
      [({ forAll }) => forAll(integer(), hang), /the case: its promise is still open/],
    ];
    for (const [law, message] of laws) {
      calls = 0;
      const [result] = await run(law);
      assert.equal(result!.status, "broken");
      assert.match(String(result!.error), message);
      assert.equal(calls, 1);
    }
  });

  it("is no law that goes on to one case after the other", async () => {
    const { setTimeout, clearTimeout } = globalThis;
    const timers: (() => void)[] = [];
    globalThis.setTimeout = ((callback: () => void) => timers.push(callback)) as never;
    globalThis.clearTimeout = () => {};
    try {
      // In each case, all time is over that there was when it began: that of the law, and of what has ended before.
      const expire = async () => {
        for (const callback of timers.splice(0)) callback();
      };
      const [result] = await run(({ forEach }) => forEach([1, 2, 3, 4, 5], expire));
      assert.equal(result!.status, "kept", String(result!.error));
    } finally {
      Object.assign(globalThis, { setTimeout, clearTimeout });
    }
  });

  it("is waited for as long as the most patient asks for of those who run at the same time", async () => {
    const later = () => new Promise<void>((resolve) => setTimeout(resolve, 20));
    const wait = () => settled(later(), "it");
    const patient = <Result>(body: () => Promise<Result>) => withPatience(3_600_000, body);
    const impatient = <Result>(body: () => Promise<Result>) => withPatience(1, body);
    await patient(() => impatient(wait));
    await impatient(() => patient(wait));
    assert.match(
      String(await rejection(impatient(wait))),
      /^Hung: it: its promise is still open after 1 ms$/,
    );
  });
});

describe("A run of the suite", () => {
  it("rejects where the backend cannot be opened, and leaves no instance behind", async () => {
    let closed = 0;
    const create = (): ComputeBackend => {
      const backend = createReferenceBackend();
      backend.init = () => Promise.reject(new BackendError("UNSUPPORTED", "init: no such device"));
      const dispose = backend.dispose.bind(backend);
      backend.dispose = () => {
        closed++;
        return dispose();
      };
      return backend;
    };
    const error = await rejection(runLaws({ name: "missing", create }));
    assert.equal(error.code, "UNSUPPORTED");
    assert.equal(closed, 1);
  });

  it("closes the backend where a listener throws, and rejects with that", async () => {
    for (const listener of ["onOpen", "onStart", "onResult"] as const) {
      let open = 0;
      const create = () => {
        const backend = createReferenceBackend();
        const { init, dispose } = {
          init: backend.init.bind(backend),
          dispose: backend.dispose.bind(backend),
        };
        backend.init = () => init().then(() => void open++);
        backend.dispose = () => dispose().then(() => void open--);
        return backend;
      };
      const subject = { name: "watched", create, options: { law: "unary f32: takes n = 0" } };
      const stop = () => {
        throw new Error(`stopped by ${listener}`);
      };
      const error = await rejection(runSuite(subject, { [listener]: stop }));
      assert.equal(error.message, `stopped by ${listener}`);
      assert.equal(open, 0, listener);
    }
  });

  it("says where the backend cannot be disposed of, and keeps the results", async () => {
    const create = () => {
      const backend = createReferenceBackend();
      backend.dispose = () => Promise.reject(new Error("stuck"));
      return backend;
    };
    const subject = { name: "stuck", create, options: { operations: ["unary"], law: "n = 0" } } as const;
    const outcome = await runSuite(subject);
    assert.equal(String(outcome.disposal), "Error: stuck");
    assert.match(buildReport(outcome).run.note!, /dispose at the end failed: Error: stuck/);
    assert.equal((await rejection(runLaws(subject))).message, "stuck");
  });

  it("reports what a time budget does not reach as unfinished, never as kept", async () => {
    const { results, note } = await runSuite(
      reference({ dtypes: ["f32"], operations: ["gemm"], timeBudget: 0.001 }),
    );
    const late = results.filter(({ status }) => status === "unfinished");
    assert.isAbove(late.length, 0);
    assert.isTrue(results.every(({ status }) => status === "kept" || status === "unfinished"));
    assert.isTrue(
      late.every(({ reason }) => /time budget of 0.000001 s was used up (before|after)/.test(reason!)),
    );
    assert.match(note!, new RegExp(`${late.length} of ${results.length} laws were not finished`));
  });

  it("says how far it came with a law that it cut short", async () => {
    let time = performance.now();
    const create = () => {
      const backend = createReferenceBackend();
      const unary = backend.unary.bind(backend);
      backend.unary = (args) => {
        time += 20;
        unary(args);
      };
      return backend;
    };
    const options = {
      operations: ["unary"],
      dtypes: ["f32"],
      law: "unary f32: abs:",
      timeBudget: 70,
    } as const;
    const [result] = await atTime(
      () => time,
      () => runLaws({ name: "slow", create, options }),
    );
    assert.equal(result!.status, "unfinished");
    assert.equal(result!.reason, "the time budget of 0.07 s was used up after 4 of 7 cases");
    assert.equal(result!.measurements.cases, 4);
  });

  it("can be stopped by a signal", async () => {
    const stopping = new AbortController();
    const options = { dtypes: ["f32"], operations: ["gemm"], signal: stopping.signal } as const;
    let done = 0;
    const { results } = await runSuite(reference(options), {
      onResult() {
        if (++done === 2) stopping.abort();
      },
    });
    assert.deepEqual(
      results.slice(0, 3).map(({ status }) => status),
      ["kept", "kept", "unfinished"],
    );
    assert.equal(results[2]!.reason, "the run was stopped before it was begun");
  });

  it("finds in soak mode what no single seed has to show, and keeps the seed for the replay", async () => {
    let calls = 0;
    // Wrong from the 60th call on: not with the first seed.
    const create = () => {
      const backend = createReferenceBackend();
      const unary = backend.unary.bind(backend);
      backend.unary = (args) => unary(++calls > 60 && args.kind === "abs" ? { ...args, kind: "neg" } : args);
      return backend;
    };
    const options = {
      operations: ["unary"],
      dtypes: ["f32"],
      law: "unary f32: abs:",
      mode: "soak",
      // Far more than it takes: it ends where the law is broken.
      timeBudget: 3_600_000,
    } as const;
    const { results, seeds } = await runSuite({ name: "wearing out", create, options });
    assert.equal(results[0]!.status, "broken");
    assert.isAbove(seeds.length, 1);
    assert.equal(seeds.at(-1), seeds.length);
    assert.equal((results[0]!.error as LawFailure).replay.seed, seeds.at(-1));
    const failure = buildReport({ ...(await runSuite({ name: "worn out", create, options })) }).laws[0]!
      .failure!;
    assert.equal(failure.replay.seed, 1, "by now it is broken with the first seed");
    const [again] = await runLaws({ name: "worn out", create, options: { replay: failure.replay } });
    assert.equal(again!.status, "broken");
  });

  it("goes on in soak mode until its time budget is used up", async () => {
    let time = performance.now();
    const create = () => {
      const backend = createReferenceBackend();
      const unary = backend.unary.bind(backend);
      backend.unary = (args) => {
        time += 1;
        unary(args);
      };
      return backend;
    };
    const options = { law: "unary f32: abs", mode: "soak", runs: 3, timeBudget: 100 } as const;
    const { results, seeds } = await atTime(
      () => time,
      () => runSuite({ name: "steady", create, options }),
    );
    assert.deepEqual(
      seeds,
      Array.from({ length: seeds.length }, (_, i) => i + 1),
    );
    assert.isAbove(seeds.length, 3);
    assert.deepEqual(
      results.map(({ status }) => status),
      ["kept"],
    );
    assert.approximately(results[0]!.measurements.cases, 100, 10);
  });

  it("does not hold promises against a backend that does not make them, but says what it found", async () => {
    const subject = (grade: "must" | "tight", create: () => ComputeBackend) => ({
      ...{ name: "modest", create },
      options: { operations: ["gemm", "binary"], dtypes: ["f32"], grade } satisfies SuiteOptions,
    });
    const modest = withPromises(createReferenceBackend, noPromises);
    const report = buildReport(await runSuite(subject("must", modest)));
    assert.equal(report.totals.broken, 0);
    const tight = report.laws.find(({ id }) => id.startsWith("gemm f32: stays within the tight bound"))!;
    assert.deepInclude(tight, {
      status: "skipped",
      observed: "holds",
      reason: "rounding is declared unspecified",
    });
    assert.isAbove(tight.cases, 0);
    const gemm = report.operations.find(({ operation, dtype }) => operation === "gemm" && dtype === "f32")!;
    assert.isAbove(gemm.worstTight!, 0);
    const promises = Object.fromEntries(report.numerics.map((entry) => [entry.promise, entry]));
    assert.deepInclude(promises.nan, { declared: "unspecified", promised: "kept", observed: "holds" });

    const required = buildReport(await runSuite(subject("tight", modest)));
    assert.equal(required.totals.broken, 0);
    assert.equal(required.laws.find(({ id }) => id === tight.id)!.status, "kept");
  });

  it("tells where a promise that was not made does not hold, and goes on with the same backend", async () => {
    let created = 0;
    const flushing = withPromises(mutant("flushes subnormal numbers"), { subnormals: "flushed" });
    const create = () => {
      created++;
      return flushing();
    };
    const options = { law: "numerics f32: binary: " } as const;
    const report = buildReport(await runSuite({ name: "flushing", create, options }));
    assert.equal(report.totals.broken, 0);
    const subnormals = report.numerics.find(({ promise }) => promise === "subnormals")!;
    assert.deepInclude(subnormals, { declared: "flushed", promised: "kept", observed: "does not hold" });
    assert.match(subnormals.evidence[0]!.detail!, /result 0 is/);
    assert.equal(created, 1);
  });

  it("asks for correct rounding of those who do not declare it only in the tight grade", async () => {
    const create = withPromises(mutant("cuts sums off instead of rounding them"), {
      rounding: "unspecified",
    });
    const options = {
      operations: ["binary"],
      dtypes: ["f32"],
      law: "binary f32: add: stays within",
    } as const;
    const [must] = await runLaws({ name: "cutting", create, options });
    assert.equal(must!.status, "kept");
    const [tight] = await runLaws({ name: "cutting", create, options: { ...options, grade: "tight" } });
    assert.equal(tight!.status, "broken");
    assert.isAbove(tight!.worst, 1);
  });

  it("reports even on a backend that says next to nothing of itself", async () => {
    const create = () => {
      const backend = createReferenceBackend();
      Object.defineProperty(backend, "capabilities", { get: () => ({ dtypes: ["f32"] }) });
      return backend;
    };
    const report = buildReport(
      await runSuite({ name: "taciturn", create, options: { law: "capabilities are complete" } }),
    );
    assert.equal(report.totals.broken, 1);
    assert.equal(report.subject.device.name, "not described");
  });
});

describe("A case", () => {
  it("is written as a literal that gives the same case again", () => {
    const record: object = Object.assign(Object.create(null), { shared: false, scale: null });
    const value = { before: [1, -0, Number.NaN, -Infinity], text: 'it\'s "so"', "a-b": undefined, record };
    const text = literal(value)!;
    assert.notInclude(text, "__proto__");
    const again = new Function(`return (${text});`)();
    assert.deepEqual(again, { ...value, record: { shared: false, scale: null } });
    assert.isTrue(Object.is(again.before[1], -0));
    assert.isUndefined(literal([new Map()]), "nothing is left out in silence");
  });

  it("that a replay leads to must be there", async () => {
    const law = "gemm f32: stays within the error bound on larger shapes";
    for (const path of ["999", "01", "1.0", "", "-1", "length", "0:1"]) {
      const [result] = await runLaws(reference({ replay: { law, seed: 1, path } }));
      assert.match(String(result!.error), new RegExp(`the path ${path} leads to no case`));
    }
  });
});

describe("checkCase", () => {
  const law = "unary f32: takes n = 0 for nothing to do";

  it("refuses laws that there are not, and those that do not bind the backend", async () => {
    const unknown = await rejection(checkCase(reference({}), "unary f32: nonsense", {}));
    assert.equal(unknown.code, "INVALID_ARGUMENT");
    assert.include(unknown.message, law);
    const create = () => {
      const backend = createReferenceBackend();
      backend.supports = () => false;
      return backend;
    };
    const unbound = await rejection(checkCase({ name: "empty", create }, law, {}));
    assert.equal(unbound.code, "UNSUPPORTED");
  });
});

describe("describeBackend", () => {
  it("skips what is not reached, and takes no soak mode", async () => {
    const tests: (() => Promise<void>)[] = [];
    const skipped: (string | undefined)[] = [];
    const hooks: (() => Promise<void>)[] = [];
    const controls = { skip: (reason?: string) => void skipped.push(reason), timeout() {} };
    const runner: Runner = {
      describe: (_name, body) => body(),
      it: (_name, body) => tests.push(() => body.call(controls)),
      before: (body) => hooks.push(body),
      after: (body) => hooks.push(body),
    };
    const options = {
      operations: ["unary"],
      dtypes: ["f32"],
      law: "unary f32: abs",
      timeBudget: 1e-6,
    } as const;
    describeBackend(reference(options), runner);
    await hooks[0]!();
    for (const test of tests) await test();
    await hooks[1]!();
    assert.lengthOf(tests, 1);
    assert.match(skipped[0]!, /time budget/);
    // A runner without a way to skip is not told that what was not tried has passed.
    Object.assign(controls, { skip: undefined });
    await hooks[0]!();
    const failure = await tests[0]!().catch(String);
    assert.match(String(failure), /time budget/);
    await hooks[1]!();
    assert.throws(
      () => describeBackend(reference({ mode: "soak" }), runner),
      BackendError,
      /quick or default/,
    );
  });
});
