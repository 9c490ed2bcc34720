// Tags: proof, pure, long
import { readFile } from "node:fs/promises";
import { operationNames, operations as operationsOfCore } from "@backplane/core";
import { assert } from "chai";
import {
  buildReport,
  type ConformanceReport,
  createReferenceBackend,
  diffReports,
  isUnchanged,
  type Law,
  laws,
  parseReport,
  ratioEnds,
  runSuite,
  suiteVersion,
} from "#src/index.js";
import { bucketOf, Recorder } from "#src/measurements.js";
import { mutant, noPromises, withPromises } from "./support/backends.js";
import { lawReport, sampleReport } from "./support/sample-report.js";
import { type Schema, violations } from "./support/schema.js";

async function reportOn(
  create: Parameters<typeof runSuite>[0]["create"],
  options: NonNullable<Parameters<typeof runSuite>[0]["options"]>,
): Promise<ConformanceReport> {
  return buildReport(await runSuite({ name: "subject", create, options }));
}

/** Operations of which the reference takes long for larger shapes. */
const slow: readonly string[] = [
  ...["attention", "attentionGradient", "conv2d", "conv2dInputGradient", "conv2dFilterGradient", "map"],
  ...["normalizeGradient", "quantizedGemm", "softmax", "softmaxGradient"],
];

/** Laws in f32, of each operation and on promises, without those that take the reference long. */
const fewLaws: readonly Law[] = laws.filter(
  ({ topic, dtype, operation, name }) =>
    dtype === "f32" &&
    !(slow.includes(topic) && /larger shapes|many elements/.test(name)) &&
    (topic !== "numerics" || operation === "gemm" || operation === "unary"),
);

describe("A report", () => {
  let schema: Schema;
  const reports: Record<string, ConformanceReport> = {};

  before(async () => {
    schema = JSON.parse(
      await readFile(new URL("../conformance-report.schema.json", import.meta.url), "utf8"),
    );
    reports.healthy = await reportOn(createReferenceBackend, { mode: "quick", laws: fewLaws, runs: 2 });
    reports.modest = await reportOn(withPromises(createReferenceBackend, noPromises), {
      ...{ mode: "quick", operations: ["unary", "binary"] },
      law: "numerics f16",
    });
    reports["modest unary"] = await reportOn(withPromises(createReferenceBackend, noPromises, {}), {
      mode: "quick",
      law: "accuracy f32: sigmoid",
    });
    reports.coarse = await reportOn(
      withPromises(
        mutant("is off where exp is large"),
        {},
        {
          unary: { exp: [{ below: 79, units: 0.5 }, { below: 81, units: 2 }, { units: 0.5 }] },
        },
      ),
      { mode: "quick", law: "accuracy f32: exp" },
    );
    reports.wrong = await reportOn(mutant("drops the last k"), { law: "gemm f32" });
    reports.guard = await reportOn(mutant("writes one element past the end"), { law: "gemm f32: is exact" });
    reports.calls = await reportOn(mutant("double free accepted"), { law: "stateful", runs: 10 });
    reports.tight = await reportOn(createReferenceBackend, {
      runs: 1,
      grade: "tight",
      law: "conv2d f32: is exact",
    });
  });

  it("is what its schema says, and survives JSON", () => {
    for (const [name, report] of Object.entries(reports)) {
      assert.deepEqual(violations(schema, report), [], name);
      assert.deepEqual(parseReport(JSON.stringify(report)), report, name);
    }
  });

  it("would not be, were it otherwise", () => {
    const report = reports.wrong!;
    const changes: readonly (readonly [object, RegExp])[] = [
      [{ kind: "report" }, /^\$\.kind/],
      [{ extra: 1 }, /extra/],
      [{ totals: { ...report.totals, kept: 0.5 } }, /^\$\.totals\.kept/],
      [{ totals: undefined }, /totals/],
      [{ laws: [{ ...report.laws[0]!, status: "fine" }] }, /^\$\.laws\[0\]\.status/],
      [{ laws: [{ ...report.laws[0]!, worst: "1" }] }, /^\$\.laws\[0\]\.worst/],
    ];
    for (const [change, message] of changes)
      assert.match(violations(schema, { ...report, ...change })[0]!, message);
    assert.throws(() => parseReport("{"), /no JSON/);
    assert.throws(() => parseReport("null"), /no conformance report/);
    assert.throws(() => parseReport(JSON.stringify({ ...report, schemaVersion: 2 })), /version 2/);
    assert.throws(() => parseReport(JSON.stringify({ ...report, laws: null })), /no laws/);
  });

  it("counts laws and cases per operation and element type", () => {
    const { operations, laws, totals } = reports.healthy!;
    assert.equal(laws.length, totals.kept);
    // Operands of several types have further arguments, and the call one of its own.
    const types = operationNames.map((name) => {
      const { decisive } = operationsOfCore[name];
      const own = decisive.find(({ argument }) => argument === "dtype") ?? decisive[0]!;
      return own.values!.length;
    });
    assert.lengthOf(
      operations,
      types.reduce((sum, count) => sum + count, 0),
    );
    for (const { operation, dtype, supported, kept, cases, ratios, shapes, worst } of operations) {
      assert.isTrue(supported);
      const own = laws.filter((law) => law.operation === operation && law.dtype === dtype);
      assert.equal(kept, own.length);
      assert.equal(
        cases,
        own.reduce((sum, law) => sum + law.cases, 0),
      );
      if (dtype !== "f32") continue;
      assert.isAbove(own.length, 3, `laws on ${operation}`);
      const results = ratios.reduce((a, b) => a + b, 0);
      assert.isAbove(results, 10, operation);
      assert.isAtMost(worst!, 1);
      assert.isAtLeast(
        shapes.cells.reduce((sum, cell) => sum + cell.cases, 0),
        results,
        operation,
      );
      assert.isTrue(shapes.cells.every(({ bins }) => bins.length === shapes.axes.length));
    }
    const gemm = operations.find(({ operation, dtype }) => operation === "gemm" && dtype === "f32")!;
    assert.deepEqual(gemm.shapes.axes, ["m", "n", "k"]);
    // m = 1, n = 1000, k = 513 is among the larger shapes; so are extents of zero elsewhere.
    assert.isTrue(gemm.shapes.cells.some(({ bins }) => bins.join() === "0,9,9"));
    assert.isTrue(gemm.shapes.cells.some(({ bins }) => bins.includes(-1)));
    assert.isNull(operations.find(({ operation }) => operation === "gemm")!.kinds);
    assert.isEmpty(operations.find(({ operation }) => operation === "unary")!.kinds!.missing);
  });

  it("shows a failure in all its parts", () => {
    const [wrong] = reports.wrong!.laws.filter(({ id }) => id === "gemm f32: is exact on whole numbers");
    const { failure, worst } = wrong!;
    assert.equal(worst, Number.MAX_VALUE, "no error is allowed, so that any is infinitely too much");
    assert.deepInclude(failure!.values, { first: 0, from: 0, allowed: "0" });
    assert.notEqual(failure!.values!.got[0], failure!.values!.expected[0]);
    assert.match(failure!.paste!, /^await checkCase\(\{ name: "mine", create \}, "gemm f32: is exact .*\);$/);
    assert.include(failure!.message, failure!.case!);
    assert.include(failure!.message, JSON.stringify(failure!.replay));
    const operation = reports.wrong!.operations.find(({ operation }) => operation === "gemm")!;
    assert.isAbove(operation.ratios.at(-1)!, 0);

    const [guard] = reports.guard!.laws;
    assert.match(guard!.failure!.guard!, /wrote 1 elements past the end of c/);
    assert.isNull(guard!.failure!.values);

    const [calls] = reports.calls!.laws;
    assert.isNull(calls!.failure!.paste, "a list of calls is no literal");
    assert.isString(calls!.failure!.replay.replayPath);
  });

  it("sets what is declared against what was found", () => {
    const of = (name: string) =>
      Object.fromEntries(reports[name]!.numerics.map(({ promise, ...rest }) => [promise, rest]));
    assert.deepInclude(of("healthy").rounding, { declared: "nearest-even", observed: "holds" });
    assert.deepInclude(of("modest").nan, { declared: "unspecified", promised: "kept", observed: "holds" });
    assert.deepInclude(of("modest").rounding, { observed: null, evidence: [] });
    assert.deepInclude(of("wrong").rounding, { declared: "nearest-even", observed: "does not hold" });
    assert.isString(of("wrong").rounding!.evidence.find(({ held }) => !held)!.detail);
  });

  it("sets the units that are declared against the largest errors found", () => {
    const of = (name: string, kind: string) => reports[name]!.accuracy.find((one) => one.kind === kind);
    const [sine, ...others] = of("healthy", "sin")!.ranges;
    assert.deepEqual(others, []);
    assert.deepInclude(sine, { from: null, below: null, declared: 0.5 });
    // Rounding to nearest: some result lies close to the middle of two numbers, and none beyond.
    assert.isTrue(sine!.observed! > 0.49 && sine!.observed! < 0.50001);
    assert.equal(of("healthy", "pow")!.operation, "binary");
    assert.lengthOf(of("healthy", "pow")!.ranges[0]!.at, 2);
    assert.isUndefined(of("healthy", "relu"), "what is exact everywhere is left out");
    assert.isUndefined(of("wrong", "sin"), "it was not tried");

    const early = of("coarse", "exp")!.ranges;
    assert.deepEqual(
      early.map(({ from, below, declared }) => [from, below, declared]),
      [
        [null, 79, 0.5],
        [79, 81, 2],
        [81, null, 0.5],
      ],
    );
    assert.isTrue(early[0]!.observed! < 0.50001 && early[2]!.observed! < 0.50001);
    assert.isTrue(early[1]!.observed! > 4, "four units near 80");
    assert.isTrue(early[1]!.at[0]! >= 79 && early[1]!.at[0]! < 81);

    const sigmoid = of("modest unary", "sigmoid")!.ranges;
    assert.lengthOf(sigmoid, 1);
    assert.isNull(sigmoid[0]!.declared);
    assert.isAbove(sigmoid[0]!.observed!, 0.49);
  });

  it("reads reports from before there was any of that", () => {
    const { accuracy: _, ...before } = reports.wrong!;
    assert.deepEqual(violations(schema, before), []);
    assert.deepEqual(parseReport(JSON.stringify(before)).accuracy, []);
  });

  it("has the version of the package", async () => {
    const manifest = JSON.parse(await readFile(new URL("../package.json", import.meta.url), "utf8"));
    assert.equal(suiteVersion, manifest.version);
    assert.equal(reports.healthy!.suiteVersion, manifest.version);
  });
});

describe("Measurements", () => {
  it("fall into buckets that double, exact ones and failures apart", () => {
    assert.equal(bucketOf(0), 0);
    assert.equal(bucketOf(1e-9), 1);
    assert.equal(ratioEnds[bucketOf(0.3)], 0.5);
    assert.equal(ratioEnds[bucketOf(0.5)], 0.5);
    assert.equal(ratioEnds[bucketOf(1)], 1);
    assert.equal(bucketOf(1.0001), ratioEnds.length);
    assert.equal(bucketOf(Number.POSITIVE_INFINITY), ratioEnds.length);
  });

  it("take a NaN for the worst there is, and end with the first failure", () => {
    const recorder = new Recorder();
    recorder.countCase();
    recorder.observe(0.25, [1, 0, 257]);
    recorder.observe(Number.NaN, [1, 0, 300]);
    recorder.stop();
    recorder.countCase();
    recorder.observe(7);
    const { cases, worst, cells, ratios } = recorder.measurements;
    assert.deepEqual({ cases, worst }, { cases: 1, worst: Number.POSITIVE_INFINITY });
    assert.deepEqual(cells, [{ bins: [0, -1, 8], cases: 2, worst: Number.POSITIVE_INFINITY }]);
    assert.equal(
      ratios.reduce((a, b) => a + b, 0),
      2,
    );
  });
});

describe("Comparing two reports", () => {
  const before = sampleReport({
    laws: [
      lawReport("gemm", "same", { worst: 0.5 }),
      lawReport("gemm", "better", { status: "broken", worst: 30 }),
      lawReport("gemm", "worse", { worst: 0.1 }),
      lawReport("gemm", "gone"),
      lawReport("memory", "skipped"),
      lawReport("memory", "again", { status: "unfinished" }),
      lawReport("conv2d", "tiny", { worst: 1e-6 }),
      lawReport("conv2d", "broke"),
    ],
  });
  const after = sampleReport({
    laws: [
      lawReport("gemm", "same", { worst: 0.9 }),
      lawReport("gemm", "better", { worst: 0.5 }),
      lawReport("gemm", "worse", { worst: 0.3 }),
      lawReport("memory", "skipped", { status: "skipped", reason: "not declared" }),
      lawReport("memory", "again"),
      lawReport("memory", "new"),
      lawReport("conv2d", "tiny", { worst: 1e-4 }),
      lawReport("conv2d", "broke", { status: "broken", reason: null }),
    ],
  });

  it("says what has changed, and nothing else", () => {
    const diff = diffReports(before, after);
    const names = (list: readonly { readonly law: string }[]) => list.map(({ law }) => law);
    assert.deepEqual(names(diff.broken), ["conv2d: broke"]);
    assert.deepEqual(names(diff.fixed), ["gemm: better"]);
    assert.deepEqual(diff.lost, [
      { law: "memory: skipped", before: "kept", after: "skipped", reason: "not declared" },
    ]);
    assert.deepEqual(names(diff.gained), ["memory: again"]);
    assert.deepEqual(diff.missing, ["gemm: gone"]);
    assert.deepEqual(diff.added, ["memory: new"]);
    assert.deepEqual(diff.ratios, [
      { law: "gemm: worse", before: 0.1, after: 0.3 },
      { law: "gemm: better", before: 30, after: 0.5 },
    ]);
    assert.isFalse(isUnchanged(diff));
  });

  it("finds nothing between a report and itself", () => {
    const diff = diffReports(after, after);
    assert.isTrue(isUnchanged(diff));
    assert.deepEqual(diff.remarks, []);
  });

  it("remarks on what makes the two hard to compare", () => {
    const other = { ...before, run: { ...before.run, grade: "tight" as const, seeds: [9] } };
    assert.deepEqual(diffReports(before, other).remarks, [
      `grade: ${before.run.grade} before, tight now`,
      `first seed: ${before.run.seeds[0]} before, 9 now`,
    ]);
  });
});
