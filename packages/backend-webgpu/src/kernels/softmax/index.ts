import { dtypeBytes, floatTypes, type SoftmaxProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import {
  leastSegment,
  planJoin,
  planStatistics,
  type RegisterPlan,
  type StatisticsPlan,
} from "../rows/index.js";
import { isSameRegion } from "../same-region.js";
import {
  middleOf,
  type Segmentation,
  slabPieces,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
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
  const plan = planStatistics(dtype, { outer, length, inner }, input.byteOffset, most);
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

/**
 * Cuts the outermost axis. A single slab too long for a window is seen piece by piece: first all of it for the
 * pairs, then for the results.
 */
const segments: Segmentation<Problem> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: ({ outer, length, inner }) =>
    PAIR * outer * inner * Math.max(1, Math.ceil(length / leastSegment)),

  divide(context, problem, run) {
    const { outer } = problem;
    if (outer === 1) {
      inPieces(context, problem);
      return;
    }
    const middle = middleOf(outer);
    run(context, pieceOf(problem, 0, { outer: middle }));
    run(context, pieceOf(problem, middle * problem.length * problem.inner, { outer: outer - middle }));
  },
};

/** The problem of these extents that begins at element `first`; its elements must follow one another. */
function pieceOf(problem: Problem, first: number, extents: Partial<SoftmaxShape>): Problem {
  const piece = { ...problem, ...extents };
  const count = piece.outer * piece.length * piece.inner;
  const slice = (region: BufferRegion) => sliceOf(region, problem.dtype, first, count);
  return { ...piece, input: slice(problem.input), output: slice(problem.output) };
}

function inPieces(context: OperationContext, problem: Problem): void {
  const { dtype, length, inner } = problem;
  // Scratch has room for two pairs of each column.
  const { columns, height } = slabPieces(context.features, inner, dtypeBytes[dtype], 2 * PAIR);
  for (let column = 0; column < inner; column += columns) {
    const width = Math.min(columns, inner - column);
    const pieces: Problem[] = [];
    for (let line = 0; line < length; line += height) {
      const extents = { length: Math.min(height, length - line), inner: width };
      pieces.push(pieceOf(problem, line * inner + column, extents));
    }
    context.scoped((scope) => applyPieces(scope, problem.kind, pieces));
  }
}

/** Pieces of the same rows: each adds its pairs to those of the pieces before. */
function applyPieces(context: OperationContext, kind: Problem["kind"], pieces: readonly Problem[]): void {
  const rows = pieces[0]!.inner;
  const pairAt = (region: BufferRegion, index: number): BufferRegion => ({
    ...region,
    byteOffset: region.byteOffset + index * PAIR * rows,
    byteLength: PAIR * rows,
  });
  // Each holds the pairs so far, and those of the next piece.
  let [now, next] = [context.scratch(2 * PAIR * rows), context.scratch(2 * PAIR * rows)];
  for (const [i, piece] of pieces.entries()) {
    const finish = i === pieces.length - 1 ? kind : "none";
    context.scoped((scope) => {
      if (i === 0) runStatistics(scope, piece, pairAt(now, 0), finish);
      else {
        runStatistics(scope, piece, pairAt(now, 1), "none");
        runJoin(scope, rows, 2, now, pairAt(next, 0), finish);
      }
    });
    if (i > 0) [now, next] = [next, now];
  }
  for (const piece of pieces) runApply(context, piece, pairAt(now, 0));
}

/** output = softmax or logSoftmax of input along its middle axis */
export const softmax: OperationEntry<"softmax", Problem> = {
  operation: "softmax",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => segments,
};
