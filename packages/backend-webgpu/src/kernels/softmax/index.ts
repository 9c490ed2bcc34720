import { floatTypes, type SoftmaxProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import {
  divideRows,
  leastSegment,
  planJoin,
  planStatistics,
  type RegisterPlan,
  type RowPasses,
  type StatisticsPlan,
} from "../rows/index.js";
import { isSameRegion } from "../same-region.js";
import { type Segmentation, sliceOf, windowBytes, windowOf } from "../segments/index.js";
import { applyProgram, statisticsProgram } from "./passes.wgsl.js";
import { registerProgram } from "./registers.wgsl.js";
import { finishes, type StatisticsTile } from "./rows.wgsl.js";
import { planApply, planRegisters, type SoftmaxShape } from "./select.js";

type Problem = SoftmaxProblem<DeviceMemory>;

/** What pairs hold beside m: S, or what results need of it. */
type Finish = keyof typeof finishes;

/** Bytes of a pair (m, S). */
const PAIR = 8;

const registers = memoized(registerProgram);
const statistics = memoized(statisticsProgram);
const apply = memoized(applyProgram);

function run(context: KernelContext, problem: Problem): void {
  const plan = planRegisters(shapeOf(problem));
  if (plan !== undefined) {
    runRegisters(context, problem, plan);
    return;
  }
  const pairs = context.scratch(PAIR * problem.outer * problem.inner);
  runStatistics(context, problem, pairs, problem.kind);
  runApply(context, problem, pairs);
}

function shapeOf({ dtype, outer, length, inner, input, output }: Problem): SoftmaxShape {
  return { dtype, outer, length, inner, inputOffset: input.byteOffset, outputOffset: output.byteOffset };
}

function runRegisters(
  context: KernelContext,
  { dtype, kind, input, output }: Problem,
  { along, vector, lanes, values, rows, length, inner, workgroups }: RegisterPlan,
): void {
  const inPlace = isSameRegion(input, output);
  context.dispatch(
    registers({ dtype, kind, along, vector, lanes, values, inPlace }),
    regionsFor(input, output, inPlace),
    { rows, length, inner },
    workgroups,
  );
}

/** The bindings of a program; one that works in place has none for the input. */
function regionsFor(
  data: BufferRegion,
  output: BufferRegion,
  inPlace: boolean,
  pairs?: BufferRegion,
): Record<"data" | "output" | "statistics", BufferRegion> {
  const bindings: Record<string, BufferRegion> = inPlace ? {} : { data };
  if (pairs !== undefined) bindings.statistics = pairs;
  bindings.output = output;
  return bindings as Record<"data" | "output" | "statistics", BufferRegion>;
}

/** pairs[o * inner + i] = (m, finish of S) of the row (o, i) */
function runStatistics(
  context: KernelContext,
  { dtype, outer, length, inner, input }: Problem,
  pairs: BufferRegion,
  finish: Finish,
): void {
  const rows = outer * inner;
  const most = Math.max(1, Math.floor(windowBytes(context.features) / (PAIR * rows)));
  const plan = planStatistics(dtype, { outer, length, inner }, [input.byteOffset], most);
  if (plan.segments === 1) measure(context, dtype, plan, input, pairs, finish);
  else {
    const parts = context.scratch(PAIR * rows * plan.segments);
    measure(context, dtype, plan, input, parts, "none");
    runJoin(context, rows, plan.segments, parts, pairs, finish);
  }
}

/** pairs[row] = (m, finish of S) of parts[segment * rows + row] */
function runJoin(
  context: KernelContext,
  rows: number,
  segments: number,
  parts: BufferRegion,
  pairs: BufferRegion,
  finish: Finish,
): void {
  measure(context, "pairs", planJoin(rows, segments), parts, pairs, finish);
}

function measure(
  context: KernelContext,
  source: StatisticsTile["source"],
  plan: StatisticsPlan,
  data: BufferRegion,
  pairs: BufferRegion,
  finish: Finish,
): void {
  const { along, vector, lanes, rows, length, inner, segments, segmentLength, rowBlocks } = plan;
  context.dispatch(
    statistics({ source, along, vector, lanes }),
    { data, statistics: pairs },
    { rows, length, inner, segment_length: segmentLength, row_blocks: rowBlocks, finish: finishes[finish] },
    rowBlocks * segments,
  );
}

function runApply(context: KernelContext, problem: Problem, pairs: BufferRegion): void {
  const { dtype, kind, outer, length, input, output } = problem;
  const { form, vector, inner, workgroups } = planApply(shapeOf(problem));
  const inPlace = isSameRegion(input, output);
  context.dispatch(
    apply({ dtype, kind, form, vector, inPlace }),
    regionsFor(input, output, inPlace, pairs),
    { outer, length, inner },
    workgroups,
  );
}

const passes: RowPasses<Problem> = {
  factBytes: PAIR,
  pieceOf,
  statistics: (context, problem, pairs, isLast) =>
    runStatistics(context, problem, pairs, isLast ? problem.kind : "none"),
  join: (context, { kind }, rows, parts, pairs, isLast) =>
    runJoin(context, rows, 2, parts, pairs, isLast ? kind : "none"),
  apply: runApply,
};

const segments: Segmentation<Problem> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: ({ outer, length, inner }) =>
    PAIR * outer * inner * Math.max(1, Math.ceil(length / leastSegment)),
  divide: (context, problem, run) => divideRows(context, problem, run, passes),
};

/** The problem of these extents that begins at element `first`; its elements must follow one another. */
function pieceOf(problem: Problem, first: number, extents: Partial<SoftmaxShape>): Problem {
  const piece = { ...problem, ...extents };
  const count = piece.outer * piece.length * piece.inner;
  const slice = (region: BufferRegion) => sliceOf(region, problem.dtype, first, count);
  return { ...piece, input: slice(problem.input), output: slice(problem.output) };
}

/** output = softmax or logSoftmax of input along its middle axis */
export const softmax: OperationEntry<"softmax", Problem> = {
  operation: "softmax",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => segments,
};
