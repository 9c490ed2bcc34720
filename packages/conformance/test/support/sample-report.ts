import type { OperationName } from "@backplane/core";
import type { LawStatus } from "#src/bench.js";
import { ratioEnds, shapeAxes } from "#src/measurements.js";
import type { ConformanceReport, LawReport, OperationReport } from "#src/report/report.js";

/** A law of a made-up report. */
export function lawReport(topic: string, name: string, parts: Partial<LawReport> = {}): LawReport {
  const type = parts.dtype == null ? "" : ` ${parts.dtype}`;
  return {
    ...{ id: `${topic}${type}: ${name}`, topic, name, operation: null, dtype: null, grade: "must" },
    ...{
      status: "kept",
      reason: null,
      observed: null,
      cases: 20,
      worst: null,
      milliseconds: 12.5,
      failure: null,
    },
    ...parts,
  };
}

/** What a made-up report says of an operation. */
export function operationReport(
  operation: OperationName,
  parts: Partial<OperationReport> = {},
): OperationReport {
  return {
    ...{ operation, dtype: "f32", supported: true, kinds: null },
    ...{ kept: 1, broken: 0, skipped: 0, unfinished: 0, cases: 20, milliseconds: 25 },
    ...{ worst: null, worstTight: null, ratios: new Array<number>(ratioEnds.length + 1).fill(0) },
    shapes: { axes: shapeAxes[operation], cells: [] },
    ...parts,
  };
}

/** A made-up report; totals are counted from the laws. */
export function sampleReport(parts: Partial<ConformanceReport> = {}): ConformanceReport {
  const laws = parts.laws ?? [];
  const count = (status: LawStatus) => laws.filter((law) => law.status === status).length;
  return {
    kind: "backplane-conformance-report",
    schemaVersion: 1,
    suiteVersion: "1.2.3",
    subject: {
      name: "a backend",
      backend: "made-up",
      device: { kind: "gpu", name: "A device", software: true, details: { driver: "7.1" } },
      limits: { maxAllocationBytes: 2 ** 30 },
      numerics: {
        ...{ nan: "kept", infinity: "kept", subnormals: "flushed", signedZero: "unspecified" },
        ...{ rounding: "unspecified", deterministic: true },
      },
      dtypes: ["f32", "f16"],
    },
    run: {
      ...{ mode: "default", grade: "must", seeds: [1], runs: 20, replay: null, timeBudgetMilliseconds: null },
      filters: { operations: null, dtypes: null, law: null },
      ...{ startedAt: "2026-01-02T03:04:05.678Z", milliseconds: 61_234, complete: true, note: null },
      environment: { runtime: "Node.js 22.1.0", platform: "linux x64" },
    },
    totals: {
      laws: laws.length,
      ...{ kept: count("kept"), broken: count("broken") },
      ...{ skipped: count("skipped"), unfinished: count("unfinished") },
      cases: laws.reduce((sum, law) => sum + law.cases, 0),
    },
    laws,
    operations: [],
    numerics: [],
    accuracy: [],
    ...parts,
  };
}

/** One with something of everything that a report may have. */
export function fullReport(): ConformanceReport {
  const histogram = ratioEnds.map((_, i) => (i === 0 ? 900 : i > 4 ? 3 * i : 0));
  return sampleReport({
    laws: [
      lawReport("gemm", "is exact on whole numbers", { operation: "gemm", dtype: "f32", worst: 0 }),
      lawReport("gemm", "stays within the error bound", {
        ...{ operation: "gemm", dtype: "f32", status: "broken", cases: 3, worst: 1.7976931348623157e308 },
        failure: {
          message: "gemm f32: stays within the error bound\ncase: {m: 1}\n1 of 4 results are wrong",
          case: '{ m: 2, n: 2, k: 9, data: "uniform", seed: 77 }',
          reason: "1 of 4 results is wrong",
          paste: 'await checkCase(create, "gemm f32: stays within the error bound", { m: 2, n: 2, k: 9 });',
          replay: { law: "gemm f32: stays within the error bound", seed: 1, path: "3:0:1" },
          values: {
            ...{ first: 2, wrong: 1, total: 4, from: 1, error: "0.25", allowed: "1.2e-6" },
            ...{ got: ["1.5", "NaN", "-3"], expected: ["1.5", "2.25", "-3"] },
          },
          guard: null,
        },
      }),
      lawReport("gemm", "stays within the error bound", { operation: "gemm", dtype: "f16", worst: 0.31 }),
      lawReport("reduce", "sum: stays within the error bound", {
        ...{ operation: "reduce", dtype: "f32", status: "unfinished", reason: "the time budget was used up" },
      }),
      lawReport("reduce", "sum: stays within the tight bound", {
        ...{ operation: "reduce", dtype: "f32", grade: "tight", status: "skipped", cases: 20, worst: 1.4 },
        ...{ reason: "rounding is declared unspecified", observed: "does not hold" },
      }),
      lawReport("memory", "fresh memory reads as zeros"),
      lawReport("memory", "a copy writes no byte past its end", {
        status: "broken",
        failure: {
          message:
            "memory: a copy writes no byte past its end\nwrote 1 elements past the end of output (f32)",
          case: null,
          reason: "wrote 1 elements past the end of output (f32)",
          paste: null,
          replay: { law: "memory: a copy writes no byte past its end", seed: 1 },
          values: null,
          guard: "1 element past the end of output",
        },
      }),
    ],
    operations: [
      operationReport("gemm", {
        ...{ kept: 1, broken: 1, worst: 1.7976931348623157e308, worstTight: 0.5, ratios: [...histogram, 1] },
        shapes: {
          axes: shapeAxes.gemm,
          cells: [
            { bins: [0, 0, 1], cases: 4, worst: 0 },
            { bins: [0, 0, 3], cases: 5, worst: 0.002 },
            { bins: [7, 3, 3], cases: 1200, worst: 0.9 },
            { bins: [1, 1, 3], cases: 1, worst: 1.7976931348623157e308 },
            { bins: [-1, 4, 4], cases: 2, worst: 0 },
          ],
        },
      }),
      operationReport("gemm", { dtype: "f16", kept: 1, worst: 0.31, ratios: [...histogram, 0] }),
      operationReport("reduce", {
        ...{ kept: 0, unfinished: 1, skipped: 1, worstTight: 1.4 },
        kinds: { supported: ["sum", "max"], missing: ["product"] },
        shapes: { axes: shapeAxes.reduce, cells: [{ bins: [9, 0], cases: 3, worst: 0.04 }] },
      }),
      operationReport("reduce", {
        dtype: "f16",
        supported: false,
        kept: 0,
        skipped: 2,
        cases: 0,
        milliseconds: 0,
      }),
      operationReport("unary", {
        ratios: [...histogram, 0],
        shapes: { axes: shapeAxes.unary, cells: [{ bins: [5], cases: 30, worst: 0.2 }] },
      }),
    ],
    numerics: [
      {
        ...{ promise: "nan", promised: "kept", declared: "kept", observed: "does not hold" },
        evidence: [
          { law: "numerics f32: a NaN stays", held: false, detail: "result 3 is 0" },
          { law: "numerics f16: a NaN stays", held: true, detail: null },
        ],
      },
      { promise: "infinity", promised: "kept", declared: "kept", observed: "holds", evidence: [] },
      { promise: "subnormals", promised: "kept", declared: "flushed", observed: "holds", evidence: [] },
      {
        promise: "signedZero",
        promised: "kept",
        declared: "unspecified",
        observed: "does not hold",
        evidence: [],
      },
      { promise: "deterministic", promised: true, declared: true, observed: null, evidence: [] },
    ],
    accuracy: [
      {
        ...{ operation: "unary", kind: "gelu" },
        ranges: [
          { from: null, below: -1, declared: 6.5, observed: 5.89015, at: [-2.25] },
          { from: -1, below: 0, declared: 2, observed: 3.5, at: [-0.5] },
          { from: 0, below: null, declared: 2, observed: null, at: [] },
        ],
      },
      {
        ...{ operation: "binary", kind: "pow" },
        ranges: [{ from: null, below: null, declared: null, observed: 1.7976931348623157e308, at: [0.5, 3] }],
      },
    ],
  });
}
