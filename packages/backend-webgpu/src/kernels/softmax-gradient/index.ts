import { floatTypes, type SoftmaxGradientProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import {
  divideRows,
  leastSegment,
  planApply,
  planJoin,
  planRegisters,
  planStatistics,
  type RegisterPlan,
  type RowPasses,
  type StatisticsPlan,
} from "../rows/index.js";
import { isSameRegion } from "../same-region.js";
import { type Segmentation, sliceOf, windowBytes, windowOf } from "../segments/index.js";
import {
  applyProgram,
  type RowBinding,
  registerProgram,
  type SumsBinding,
  sumsProgram,
} from "./kernels.wgsl.js";
import { needsOutput, type Over, type SumsTile } from "./text.wgsl.js";

type Problem = SoftmaxGradientProblem<DeviceMemory>;

/** Bytes of the sum of a row. */
const SUM = 4;

/** An invocation holds elements of both inputs. */
const STREAMS = 2;

const registers = memoized(registerProgram);
const sumsOf = memoized(sumsProgram);
const apply = memoized(applyProgram);

function run(context: KernelContext, problem: Problem): void {
  const { dtype, output, outputGradient, inputGradient } = problem;
  const offsets = [output.byteOffset, outputGradient.byteOffset, inputGradient.byteOffset];
  const plan = planRegisters(dtype, problem, offsets, STREAMS);
  if (plan !== undefined) {
    runRegisters(context, problem, plan);
    return;
  }
  const sums = context.scratch(SUM * problem.outer * problem.inner);
  runSums(context, problem, sums);
  runApply(context, problem, sums);
}

function overOf({ output, outputGradient, inputGradient }: Problem): Over {
  return { y: isSameRegion(output, inputGradient), dy: isSameRegion(outputGradient, inputGradient) };
}

/** The bindings of a program; there is none for an input that results go over. */
function regionsOf(
  { output, outputGradient, inputGradient }: Problem,
  over: Over,
): Record<RowBinding | "statistics", BufferRegion> {
  const regions: Record<string, BufferRegion> = { output: inputGradient };
  if (!over.y) regions.y = output;
  if (!over.dy) regions.dy = outputGradient;
  return regions as Record<RowBinding | "statistics", BufferRegion>;
}

function runRegisters(
  context: KernelContext,
  problem: Problem,
  { along, vector, lanes, values, rows, length, inner, workgroups }: RegisterPlan,
): void {
  const { dtype, kind } = problem;
  const over = overOf(problem);
  context.dispatch(
    registers({ dtype, kind, along, vector, lanes, values, over }),
    regionsOf(problem, over),
    { rows, length, inner },
    workgroups,
  );
}

/** sums[o * inner + i] = that of the row (o, i) */
function runSums(context: KernelContext, problem: Problem, sums: BufferRegion): void {
  const { dtype, kind, outer, inner, output, outputGradient } = problem;
  const rows = outer * inner;
  const most = Math.max(1, Math.floor(windowBytes(context.features) / (SUM * rows)));
  const withOutput = needsOutput[kind];
  const offsets = [outputGradient.byteOffset, ...(withOutput ? [output.byteOffset] : [])];
  const plan = planStatistics(dtype, problem, offsets, most);
  const data = withOutput ? { y: output, dy: outputGradient } : { dy: outputGradient };
  if (plan.segments === 1) add(context, dtype, kind, plan, data, sums);
  else {
    const parts = context.scratch(SUM * rows * plan.segments);
    add(context, dtype, kind, plan, data, parts);
    runJoin(context, rows, plan.segments, parts, sums);
  }
}

/** sums[row] = the sum of parts[segment * rows + row] */
function runJoin(
  context: KernelContext,
  rows: number,
  segments: number,
  parts: BufferRegion,
  sums: BufferRegion,
): void {
  add(context, "sums", undefined, planJoin(rows, segments), { dy: parts }, sums);
}

function add(
  context: KernelContext,
  source: SumsTile["source"],
  kind: SumsTile["kind"],
  { along, vector, lanes, rows, length, inner, segments, segmentLength, rowBlocks }: StatisticsPlan,
  data: Readonly<Partial<Record<"y" | "dy", BufferRegion>>>,
  sums: BufferRegion,
): void {
  context.dispatch(
    sumsOf({ source, kind, along, vector, lanes }),
    { ...data, sums } as Record<SumsBinding, BufferRegion>,
    { rows, length, inner, segment_length: segmentLength, row_blocks: rowBlocks },
    rowBlocks * segments,
  );
}

function runApply(context: KernelContext, problem: Problem, sums: BufferRegion): void {
  const { dtype, kind, outer, length, output, outputGradient, inputGradient } = problem;
  const offsets = [output.byteOffset, outputGradient.byteOffset];
  const { form, vector, inner, workgroups } = planApply(dtype, problem, offsets, inputGradient.byteOffset);
  const over = overOf(problem);
  const regions = regionsOf(problem, over);
  regions.statistics = sums;
  context.dispatch(apply({ dtype, kind, form, vector, over }), regions, { outer, length, inner }, workgroups);
}

const passes: RowPasses<Problem> = {
  factBytes: SUM,

  pieceOf(problem, first, extents) {
    const piece = { ...problem, ...extents };
    const count = piece.outer * piece.length * piece.inner;
    const slice = (region: BufferRegion) => sliceOf(region, problem.dtype, first, count);
    const { output, outputGradient, inputGradient } = problem;
    return {
      ...{ ...piece, output: slice(output), outputGradient: slice(outputGradient) },
      inputGradient: slice(inputGradient),
    };
  },

  statistics: runSums,
  join: (context, _problem, rows, parts, sums) => runJoin(context, rows, 2, parts, sums),
  apply: runApply,
};

const segments: Segmentation<Problem> = {
  longestWindow: ({ output, outputGradient, inputGradient }) =>
    Math.max(windowOf(output), windowOf(outputGradient), windowOf(inputGradient)),
  scratchBound: ({ outer, length, inner }) =>
    SUM * outer * inner * Math.max(1, Math.ceil(length / leastSegment)),
  divide: (context, problem, run) => divideRows(context, problem, run, passes),
};

/** inputGradient = the gradient of softmax or logSoftmax along the middle axis */
export const softmaxGradient: OperationEntry<"softmaxGradient", Problem> = {
  operation: "softmaxGradient",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => segments,
};
