import type { DeviceDescription, DType, Limits, Numerics, OperationName } from "@backplane/core";
import type { LawResult, LawStatus, Support } from "../bench.js";
import type { Environment } from "../environment.js";
import { type Grade, lawId, type NumericsFlag, type Replay } from "../law.js";
import {
  finite,
  type Measurements,
  merged,
  type RatioHistogram,
  type ShapeCells,
  shapeAxes,
} from "../measurements.js";
import type { Mode } from "../options.js";
import type { SuiteOutcome } from "../suite.js";
import { suiteVersion } from "../version.js";
import { accuracyReports } from "./accuracy.js";
import { describeFailure, type FailureReport } from "./failure.js";
import { numericsReports, verdict } from "./numerics.js";

/**
 * The findings of a run of the suite as plain JSON: strings, finite numbers, booleans, null, arrays and objects.
 * `conformance-report.schema.json` of this package describes it, and docs/conformance-report.md explains it.
 */
export interface ConformanceReport {
  readonly kind: "backplane-conformance-report";
  /** Changes when a reader of older reports would misread a newer one. */
  readonly schemaVersion: 1;
  /** Version of @backplane/conformance. */
  readonly suiteVersion: string;
  readonly subject: SubjectReport;
  readonly run: RunReport;
  readonly totals: Totals;
  /** One entry per law that was chosen, in the order of the suite. */
  readonly laws: readonly LawReport[];
  /** One entry per operation and element type, in the order of the contract; unsupported ones included. */
  readonly operations: readonly OperationReport[];
  /** One entry per promise of `capabilities.numerics`. */
  readonly numerics: readonly NumericsReport[];
  /** One entry per function of unary and binary whose accuracy was measured; exact ones are left out. */
  readonly accuracy: readonly AccuracyReport[];
}

export interface SubjectReport {
  /** As given to the suite. */
  readonly name: string;
  /** `backend.name`. */
  readonly backend: string;
  readonly device: DeviceDescription;
  readonly limits: Limits;
  /** As declared. */
  readonly numerics: Numerics;
  readonly dtypes: readonly DType[];
}

export interface RunReport {
  readonly mode: Mode;
  readonly grade: Grade;
  /** The start of the random search; in soak mode one for every round, of which the last may be incomplete. */
  readonly seeds: readonly number[];
  /** Random cases per law and round. */
  readonly runs: number;
  readonly filters: {
    /** Null: all. */
    readonly operations: readonly OperationName[] | null;
    readonly dtypes: readonly DType[] | null;
    readonly law: string | null;
  };
  readonly replay: Replay | null;
  readonly timeBudgetMilliseconds: number | null;
  /** ISO 8601, UTC. */
  readonly startedAt: string;
  readonly milliseconds: number;
  /** False if some laws are `unfinished`, because of the time budget or because the run was stopped. */
  readonly complete: boolean;
  /** For people: the laws that were not reached and why, even if only for the last seed. Null if there are none. */
  readonly note: string | null;
  readonly environment: Environment;
}

export interface Totals {
  readonly laws: number;
  readonly kept: number;
  readonly broken: number;
  readonly skipped: number;
  readonly unfinished: number;
  /** Cases tried, over all laws and seeds, without those of shrinking. */
  readonly cases: number;
}

export interface LawReport {
  /** Unique in the suite, such as `gemm f32: is exact on whole numbers`. */
  readonly id: string;
  readonly topic: string;
  readonly name: string;
  readonly operation: OperationName | null;
  readonly dtype: DType | null;
  /** `tight` for laws that bind only backends which declare correct rounding, or a run that asks for it. */
  readonly grade: Grade;
  readonly status: LawStatus;
  /** Why it is skipped or unfinished. */
  readonly reason: string | null;
  /** For laws on promises that the backend does not make: whether they hold all the same. */
  readonly observed: "holds" | "does not hold" | null;
  readonly cases: number;
  /**
   * The largest error / tolerance of a result; above 1 it broke the law. Null if the law measured none. An
   * infinite ratio (a NaN, or an error although none is allowed) is written as 1.7976931348623157e308.
   */
  readonly worst: number | null;
  readonly milliseconds: number;
  readonly failure: FailureReport | null;
}

export interface OperationReport {
  readonly operation: OperationName;
  readonly dtype: DType;
  readonly supported: boolean;
  /** For reduce, unary and binary: which of their kinds the backend has and lacks. */
  readonly kinds: { readonly supported: readonly string[]; readonly missing: readonly string[] } | null;
  /** Counts of the laws with this operation and element type. */
  readonly kept: number;
  readonly broken: number;
  readonly skipped: number;
  readonly unfinished: number;
  readonly cases: number;
  readonly milliseconds: number;
  /** The largest error / tolerance of the laws that bind every backend. As in `LawReport`. */
  readonly worst: number | null;
  /** The same for the tight laws, whether they bind this backend or not. Null if there are none. */
  readonly worstTight: number | null;
  /** How error / tolerance is distributed over the cases, by the worst element of each. */
  readonly ratios: RatioHistogram;
  /** Which shapes were tried. */
  readonly shapes: ShapeCells;
}

export interface NumericsReport {
  readonly promise: NumericsFlag;
  readonly declared: string | boolean;
  /** The value that `observed` refers to. */
  readonly promised: string | boolean;
  /**
   * The findings of the laws on this promise: `holds` if all of them held, `does not hold` if one did not.
   * Null if none was tried.
   */
  readonly observed: "holds" | "does not hold" | null;
  readonly evidence: readonly {
    /** Id of the law. */
    readonly law: string;
    readonly held: boolean;
    /** The observation that contradicts the promise. */
    readonly detail: string | null;
  }[];
}

/** The errors of one function in f32, in units in the last place: see `Accuracy` in core. */
export interface AccuracyReport {
  readonly operation: OperationName;
  readonly kind: string;
  /**
   * In ascending order of the argument, as declared. One range for all arguments if none is declared, and for binary.
   */
  readonly ranges: readonly UnitsReport[];
}

export interface UnitsReport {
  /** The range of the argument. Null: it has no end there. */
  readonly from: number | null;
  readonly below: number | null;
  /** Null if nothing is declared and only the least bounds of all backends hold. */
  readonly declared: number | null;
  /** The largest error found. Null if none was tried. An infinite one (a NaN) is written as in `LawReport.worst`. */
  readonly observed: number | null;
  /** The argument or arguments of that error. Empty if none was tried. */
  readonly at: readonly number[];
}

/** Makes a report of the outcome of a run. Pure: the same outcome leads to the same report. */
export function buildReport(outcome: SuiteOutcome): ConformanceReport {
  const { name, backend, plan, results } = outcome;
  const { device, limits, numerics, accuracy, dtypes } = backend.capabilities;
  const laws = results.map((result) => lawReport(result, plan.seed));
  return {
    kind: "backplane-conformance-report",
    schemaVersion: 1,
    suiteVersion,
    subject: {
      ...{ name, backend: backend.name, device, numerics, dtypes },
      limits: { maxAllocationBytes: finite(limits.maxAllocationBytes) },
    },
    run: runReport(outcome),
    totals: { laws: laws.length, ...statusCounts(results), cases: sum(laws.map(({ cases }) => cases)) },
    laws,
    operations: backend.supports.map((support) => operationReport(support, results)),
    numerics: numericsReports(numerics, results),
    accuracy: accuracyReports(accuracy, results),
  };
}

function runReport(outcome: SuiteOutcome): RunReport {
  const { plan, seeds, startedAt, milliseconds, note, disposal, results } = outcome;
  const { mode, grade, runs, operations, dtypes, law, replay, timeBudget } = plan;
  const notes = [note, disposal === undefined ? undefined : `dispose at the end failed: ${String(disposal)}`];
  return {
    ...{ mode, grade, seeds, runs },
    filters: { operations: operations ?? null, dtypes: dtypes ?? null, law: law ?? null },
    replay: replay ?? null,
    timeBudgetMilliseconds: timeBudget ?? null,
    startedAt: startedAt.toISOString(),
    milliseconds: tenths(milliseconds),
    complete: results.every(({ status }) => status !== "unfinished"),
    note: notes.filter((text) => text !== undefined).join("; ") || null,
    environment: outcome.environment,
  };
}

/** Returns the report on one law. `seed` is the seed of the trial, for failures that do not have it themselves. */
export function lawReport(result: LawResult, seed: number): LawReport {
  const { law, status, reason, observed, measurements, milliseconds, error } = result;
  return {
    ...{ id: lawId(law), topic: law.topic, name: law.name },
    ...{ operation: law.operation ?? null, dtype: law.dtype ?? null, grade: law.grade ?? "must" },
    ...{ status, reason: reason ?? null, observed: observed === undefined ? null : verdict(observed.holds) },
    ...{ cases: measurements.cases, worst: worstOf(measurements), milliseconds: tenths(milliseconds) },
    failure: status === "broken" ? describeFailure(error, lawId(law), seed) : null,
  };
}

function operationReport(support: Support, results: readonly LawResult[]): OperationReport {
  const { operation, dtype, supported, kinds } = support;
  const own = results.filter(({ law }) => law.operation === operation && law.dtype === dtype);
  const ofGrade = (grade: Grade) => own.filter(({ law }) => (law.grade ?? "must") === grade);
  const required = measured(ofGrade("must"));
  return {
    ...{ operation, dtype, supported, kinds: kinds ?? null, ...statusCounts(own) },
    cases: sum(own.map(({ measurements }) => measurements.cases)),
    milliseconds: tenths(sum(own.map(({ milliseconds }) => milliseconds))),
    worst: worstOf(required),
    worstTight: worstOf(measured(ofGrade("tight"))),
    ratios: required.ratios,
    shapes: {
      axes: shapeAxes[operation],
      cells: measured(own).cells.map((cell) => ({ ...cell, worst: finite(cell.worst) })),
    },
  };
}

function measured(results: readonly LawResult[]): Measurements {
  return merged(results.map(({ measurements }) => measurements));
}

function worstOf({ worst }: Measurements): number | null {
  return worst === undefined ? null : finite(worst);
}

function statusCounts(results: readonly LawResult[]): Record<LawStatus, number> {
  const count = (status: LawStatus) => results.filter((result) => result.status === status).length;
  return {
    ...{ kept: count("kept"), broken: count("broken") },
    ...{ skipped: count("skipped"), unfinished: count("unfinished") },
  };
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0);

/** Rounds milliseconds to a tenth: more digits say nothing. */
const tenths = (milliseconds: number): number => Math.round(milliseconds * 10) / 10;
