import { dtypeBytes, floatTypes, type NormalizeProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import { workgroupsFor } from "../elementwise/index.js";
import type { OperationEntry } from "../operation.js";
import {
  groupsFor,
  leastSegment,
  planRegisters,
  type RegisterPlan,
  sharesWords,
  vectorFor,
} from "../rows/index.js";
import { isSameRegion } from "../same-region.js";
import { linePiece, middleOf, type Segmentation, sliceOf, windowOf } from "../segments/index.js";
import { joinAll, MOMENTS, runMoments } from "./moments.js";
import { applyProgram, statisticsProgram } from "./passes.wgsl.js";
import { type RowBinding, registerProgram } from "./registers.wgsl.js";
import { USES_BIAS, USES_WEIGHT } from "./tile.js";

// For the gradients of this operation.
export { joinAll, MOMENTS, runMoments } from "./moments.js";

type Problem = NormalizeProblem<DeviceMemory>;

const registers = memoized(registerProgram);
const apply = memoized(applyProgram);
const statistics = memoized(statisticsProgram);

function run(context: KernelContext, problem: Problem): void {
  const plan = planOf(problem);
  if (plan !== undefined) {
    runRegisters(context, problem, plan);
    return;
  }
  const moments = context.scratch(MOMENTS * problem.rows);
  runMoments(context, problem, moments, true);
  runApply(context, problem, moments);
  runStatistics(context, problem, moments);
}

function planOf(problem: Problem): RegisterPlan | undefined {
  const { dtype, rows, size } = problem;
  return planRegisters(dtype, { outer: rows, length: size, inner: 1 }, offsetsOf(problem));
}

/** Where the operands begin that are read or written vector by vector. */
function offsetsOf({ input, weight, bias, output }: Problem): readonly number[] {
  return [input.byteOffset, output.byteOffset, weight?.byteOffset ?? 0, bias?.byteOffset ?? 0];
}

function usesOf({ weight, bias }: Problem): number {
  return (weight === undefined ? 0 : USES_WEIGHT) | (bias === undefined ? 0 : USES_BIAS);
}

/** The bindings of data, factors and results. A factor that is not used shows the other one. */
function resultRegions(
  { input, weight, bias, output }: Problem,
  inPlace: boolean,
): Record<RowBinding | "moments", BufferRegion> {
  const regions: Record<string, BufferRegion> = inPlace ? {} : { data: input };
  const either = weight ?? bias;
  if (either !== undefined) {
    regions.weight = either;
    regions.bias = bias ?? either;
  }
  regions.output = output;
  return regions as Record<RowBinding | "moments", BufferRegion>;
}

/** Where a kernel stores the statistics, if there are any to store. */
interface Stored {
  readonly mean: BufferRegion | undefined;
  readonly inverseDeviation: BufferRegion;
  /** Moves them to where they belong. */
  move(): void;
}

/**
 * No buffer may be bound twice if one of the bindings is written. So statistics take a way round through scratch if
 * they share one with another operand, or if nobody asked for them.
 */
function placesOf(context: KernelContext, problem: Problem): Stored | undefined {
  const { kind, rows, input, weight, bias, output, mean, inverseDeviation } = problem;
  if (mean === undefined && inverseDeviation === undefined) return undefined;
  const taken = new Set([input.memory, output.memory, weight?.memory, bias?.memory]);
  const moves: (() => void)[] = [];
  const placeFor = (region: BufferRegion | undefined): BufferRegion => {
    if (region !== undefined && !taken.has(region.memory)) {
      taken.add(region.memory);
      return region;
    }
    const scratch = context.scratch(4 * rows);
    if (region !== undefined) moves.push(() => context.copy(region, scratch));
    return scratch;
  };
  return {
    mean: kind === "layer" ? placeFor(mean) : undefined,
    inverseDeviation: placeFor(inverseDeviation),
    move() {
      for (const moveOne of moves) moveOne();
    },
  };
}

/** Shorter rows leave some loads out: each number makes another program to compile. */
const LEAST_VALUES = 4;

function runRegisters(
  context: KernelContext,
  problem: Problem,
  { vector, lanes, values, length, workgroups }: RegisterPlan,
): void {
  const { dtype, kind, rows, size, epsilon, input, output } = problem;
  const inPlace = isSameRegion(input, output);
  const uses = usesOf(problem);
  const stored = placesOf(context, problem);
  const regions = resultRegions(problem, inPlace);
  if (stored !== undefined) {
    if (stored.mean !== undefined) regions.mean = stored.mean;
    regions.inverse_deviation = stored.inverseDeviation;
  }
  context.dispatch(
    registers({
      kind,
      dtype,
      vector,
      lanes,
      values: Math.max(values, LEAST_VALUES),
      affine: uses !== 0,
      stores: stored !== undefined,
      inPlace,
    }),
    regions,
    { rows, length, size, epsilon, uses },
    workgroups,
  );
  stored?.move();
}

function runApply(context: KernelContext, problem: Problem, moments: BufferRegion): void {
  const { dtype, rows, size, input, output } = problem;
  const vector = vectorFor(dtype, size, offsetsOf(problem));
  const inPlace = isSameRegion(input, output);
  const uses = usesOf(problem);
  const regions = resultRegions(problem, inPlace);
  regions.moments = moments;
  const count = (rows * size) / vector;
  context.dispatch(
    apply({ dtype, vector, affine: uses !== 0, inPlace }),
    regions,
    { count, length: size / vector, uses },
    sharesWords(dtype, vector) ? workgroupsFor(false, output) : groupsFor(count, 1),
  );
}

function runStatistics(context: KernelContext, problem: Problem, moments: BufferRegion): void {
  const stored = placesOf(context, problem);
  if (stored === undefined) return;
  const { mean, inverseDeviation } = stored;
  const regions: Record<string, BufferRegion> = { moments };
  if (mean !== undefined) regions.mean = mean;
  regions.inverse_deviation = inverseDeviation;
  context.dispatch(
    statistics(mean !== undefined),
    regions as Record<"moments" | "mean" | "inverse_deviation", BufferRegion>,
    { rows: problem.rows },
    groupsFor(problem.rows, 1),
  );
  stored.move();
}

/** Cuts rows from each other. One too long for a window is seen piece by piece: for its moments, then for results. */
const segments: Segmentation<Problem> = {
  longestWindow({ input, weight, bias, output, mean, inverseDeviation }) {
    let longest = 0;
    for (const region of [input, weight, bias, output, mean, inverseDeviation])
      if (region !== undefined) longest = Math.max(longest, windowOf(region));
    return longest;
  },

  scratchBound: ({ rows, size }) => MOMENTS * rows * Math.max(1, Math.ceil(size / leastSegment)),

  divide(context, problem, run) {
    const { rows } = problem;
    if (rows === 1) {
      inPieces(context, problem);
      return;
    }
    const middle = middleOf(rows);
    run(context, someRows(problem, 0, middle));
    run(context, someRows(problem, middle, rows - middle));
  },
};

function someRows(problem: Problem, first: number, rows: number): Problem {
  const { dtype, size, mean, inverseDeviation } = problem;
  return {
    ...{ ...problem, rows },
    input: sliceOf(problem.input, dtype, first * size, rows * size),
    output: sliceOf(problem.output, dtype, first * size, rows * size),
    mean: mean && sliceOf(mean, "f32", first, rows),
    inverseDeviation: inverseDeviation && sliceOf(inverseDeviation, "f32", first, rows),
  };
}

function inPieces(context: OperationContext, problem: Problem): void {
  const { dtype, size, epsilon } = problem;
  const length = linePiece(context.features, dtypeBytes[dtype]);
  const pieces: Problem[] = [];
  for (let first = 0; first < size; first += length) {
    const count = Math.min(length, size - first);
    const slice = (region: BufferRegion) => sliceOf(region, dtype, first, count);
    const { input, output, weight, bias } = problem;
    pieces.push({
      ...{ ...problem, size: count, input: slice(input), output: slice(output) },
      ...{ weight: weight && slice(weight), bias: bias && slice(bias) },
    });
  }
  const moments = context.scratch(MOMENTS);
  const parts = context.scratch(MOMENTS * pieces.length);
  for (const [i, piece] of pieces.entries())
    context.scoped((scope) =>
      runMoments(scope, piece, { ...parts, byteOffset: MOMENTS * i, byteLength: MOMENTS }, false),
    );
  joinAll(context, pieces.length, parts, moments, epsilon);
  for (const piece of pieces) runApply(context, piece, moments);
  runStatistics(context, problem, moments);
}

/** output = layer or rms normalization of each row of the input */
export const normalize: OperationEntry<"normalize", Problem> = {
  operation: "normalize",
  supports: [{ dtype: floatTypes }],
  run,
  segments: () => segments,
};
