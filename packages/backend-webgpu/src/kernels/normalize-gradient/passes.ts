import type { FloatType, NormalizeGradientProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { workgroupsFor } from "../elementwise/index.js";
import { storeRounded } from "../halves.js";
import { runMoments } from "../normalize/index.js";
import {
  groupsFor,
  planJoin,
  planStatistics,
  type StatisticsPlan,
  sharesWords,
  vectorFor,
} from "../rows/index.js";
import { isSameRegion } from "../same-region.js";
import { windowBytes } from "../segments/index.js";
import {
  type ColumnsTile,
  columnsProgram,
  factsProgram,
  type MeansTile,
  meansProgram,
  totalsProgram,
  wordsProgram,
} from "./passes.wgsl.js";
import { registerProgram } from "./registers.wgsl.js";
import { type GradientRegisterPlan, lanesOfTotals, planColumns, planRows } from "./select.js";
import { beside, type GradientTile, type Over } from "./text.wgsl.js";

export type Problem = NormalizeGradientProblem<DeviceMemory>;

/** Bytes of the facts and of the means of a row. */
export const FACTS = 16;
export const MEANS = 8;

/** The sums of columns of each block of rows, in f32. */
export interface BlockSums {
  readonly blocks: number;
  readonly weights: BufferRegion | undefined;
  readonly biases: BufferRegion;
}

const registers = memoized(registerProgram);
const factsOf = memoized(factsProgram);
const meansOf = memoized(meansProgram);
const columns = memoized(columnsProgram);
const words = memoized(wordsProgram);
const totals = memoized(totalsProgram);

/** Writes the input's gradient, if it is wanted. Returns the sums of blocks of rows, if any are wanted. */
export function runBlocks(context: KernelContext, problem: Problem): BlockSums | undefined {
  const { rows, inputGradient, weightGradient } = problem;
  if (inputGradient !== undefined) {
    const plan = planOf(context, problem, inputGradient);
    if (plan !== undefined) return runRegisters(context, problem, inputGradient, plan);
  }
  const needsInput = inputGradient !== undefined || weightGradient !== undefined;
  const facts = needsInput ? context.scratch(FACTS * rows) : undefined;
  if (facts !== undefined) runFacts(context, problem, facts);
  const means = inputGradient === undefined ? undefined : context.scratch(MEANS * rows);
  if (facts !== undefined && means !== undefined) runMeans(context, problem, facts, means, problem.size);
  return runColumns(context, problem, facts, means);
}

export function wantsSums({ weightGradient, biasGradient }: Problem): boolean {
  return weightGradient !== undefined || biasGradient !== undefined;
}

/** Where the inputs begin that are read vector by vector. */
function inputOffsets({ input, outputGradient, weight, inputGradient }: Problem): readonly number[] {
  const factor = inputGradient === undefined ? undefined : weight;
  return [input.byteOffset, outputGradient.byteOffset, factor?.byteOffset ?? 0];
}

/** Blocks whose sums a binding shows. */
function mostBlocks({ features }: KernelContext, { size }: Problem): number {
  return Math.floor(windowBytes(features) / (4 * size));
}

function planOf(
  context: KernelContext,
  problem: Problem,
  result: BufferRegion,
): GradientRegisterPlan | undefined {
  const { dtype, rows, size } = problem;
  const offsets = [...inputOffsets(problem), result.byteOffset];
  return planRows(dtype, rows, size, offsets, wantsSums(problem), mostBlocks(context, problem));
}

function overOf({ input, outputGradient, inputGradient }: Problem): Over {
  if (inputGradient === undefined) return beside;
  return { x: isSameRegion(input, inputGradient), dy: isSameRegion(outputGradient, inputGradient) };
}

type Regions = Record<string, BufferRegion>;

/** The bindings of data; there is none for an input that results go over. */
function dataRegions({ input, outputGradient, weight, inputGradient }: Problem, over: Over): Regions {
  const regions: Regions = {};
  if (!over.x) regions.x = input;
  if (!over.dy) regions.dy = outputGradient;
  if (weight !== undefined) regions.weight = weight;
  if (inputGradient !== undefined) regions.output = inputGradient;
  return regions;
}

function sumsFor(context: KernelContext, size: number, blocks: number): Required<BlockSums> {
  const [weights, biases] = [context.scratch(4 * size * blocks), context.scratch(4 * size * blocks)];
  return { blocks, weights, biases };
}

function runRegisters(
  context: KernelContext,
  problem: Problem,
  result: BufferRegion,
  { vector, lanes, values, length, turns, blocks, workgroups }: GradientRegisterPlan,
): BlockSums | undefined {
  const { dtype, kind, rows, size, epsilon, weight, mean, inverseDeviation } = problem;
  const over = overOf(problem);
  const regions = dataRegions(problem, over);
  regions.output = result;
  if (mean !== undefined) regions.mean = mean;
  if (inverseDeviation !== undefined) regions.inverse = inverseDeviation;
  const sums = wantsSums(problem) ? sumsFor(context, size, blocks) : undefined;
  if (sums !== undefined) {
    regions.weight_sums = sums.weights!;
    regions.bias_sums = sums.biases;
  }
  context.dispatch(
    registers({
      ...{ kind, dtype, vector, lanes, values, over, weight: weight !== undefined },
      ...{ given: inverseDeviation !== undefined, sums: sums !== undefined },
    }),
    regions as never,
    { rows, length, size, epsilon, turns },
    workgroups,
  );
  return sums;
}

/** facts[row] = (m, what its rounding left, r, ...) */
export function runFacts(context: KernelContext, problem: Problem, facts: BufferRegion): void {
  const { kind, rows, mean, inverseDeviation } = problem;
  if (inverseDeviation === undefined) {
    runMoments(context, problem, facts, true);
    return;
  }
  const regions: Regions = { inverse: inverseDeviation, facts };
  if (mean !== undefined) regions.mean = mean;
  context.dispatch(factsOf(kind), regions as never, { rows }, groupsFor(rows, 1));
}

/** means[row] = the sums of g and g h, divided by `divisor`, or to be joined with others if that is 0. */
export function runMeans(
  context: KernelContext,
  problem: Problem,
  facts: BufferRegion,
  means: BufferRegion,
  divisor: number,
): void {
  const { dtype, kind, rows, size, input, outputGradient, weight } = problem;
  const most = Math.max(1, Math.floor(windowBytes(context.features) / (MEANS * rows)));
  const plan = planStatistics(dtype, { outer: rows, length: size, inner: 1 }, inputOffsets(problem), most);
  const vector = plan.vector === 4 ? 4 : 1;
  const source = { kind, dtype, vector, weight: weight !== undefined, over: beside } as const;
  const data: Regions = { x: input, dy: outputGradient, facts };
  if (weight !== undefined) data.weight = weight;
  if (plan.segments === 1) add(context, source, plan, data, means, divisor);
  else {
    const parts = context.scratch(MEANS * rows * plan.segments);
    add(context, source, plan, data, parts, 0);
    joinMeans(context, rows, plan.segments, parts, means, divisor);
  }
}

/** means[row] of parts[segment * rows + row] */
export function joinMeans(
  context: KernelContext,
  rows: number,
  segments: number,
  parts: BufferRegion,
  means: BufferRegion,
  divisor: number,
): void {
  add(context, "sums", planJoin(rows, segments), { parts }, means, divisor);
}

function add(
  context: KernelContext,
  source: MeansTile["source"],
  { vector, lanes, rows, length, segments, segmentLength, rowBlocks }: StatisticsPlan,
  data: Regions,
  means: BufferRegion,
  divisor: number,
): void {
  context.dispatch(
    meansOf({ source, vector: vector === 4 ? 4 : 1, lanes }),
    { ...data, means } as never,
    {
      ...{ rows, length, segment_length: segmentLength, row_blocks: rowBlocks },
      ...{ size: Math.max(divisor, 1), finish: divisor === 0 ? 0 : 1 },
    },
    rowBlocks * segments,
  );
}

/** Results and sums of columns, from what is known of rows. */
export function runColumns(
  context: KernelContext,
  problem: Problem,
  facts: BufferRegion | undefined,
  means: BufferRegion | undefined,
): BlockSums | undefined {
  const { dtype, size, inputGradient } = problem;
  const inputs = inputOffsets(problem);
  if (inputGradient === undefined)
    return goAlong(context, problem, facts, undefined, vectorFor(dtype, size, inputs));
  const vector = vectorFor(dtype, size, [...inputs, inputGradient.byteOffset]);
  if (!sharesWords(dtype, vector)) return goAlong(context, problem, facts, means, vector);
  // Before results go over what is added up.
  const sums = wantsSums(problem)
    ? goAlong(context, { ...problem, inputGradient: undefined }, facts, undefined, 1)
    : undefined;
  runWords(context, problem, inputGradient, facts!, means!);
  return sums;
}

function goAlong(
  context: KernelContext,
  problem: Problem,
  facts: BufferRegion | undefined,
  means: BufferRegion | undefined,
  vector: GradientTile["vector"],
): BlockSums | undefined {
  const { dtype, kind, rows, size, inputGradient, weightGradient } = problem;
  const withSums = wantsSums(problem);
  const result = inputGradient !== undefined;
  const weight = result && problem.weight !== undefined;
  const plan = planColumns(vector, rows, size, withSums, mostBlocks(context, problem));
  const over = overOf(problem);
  const { x, ...others } = dataRegions({ ...problem, weight: weight ? problem.weight : undefined }, over);
  const needsInput = result || weightGradient !== undefined;
  const regions: Regions = { ...others };
  if (needsInput && x !== undefined) regions.x = x;
  if (needsInput) regions.facts = facts!;
  if (result) regions.means = means!;
  let sums: BlockSums | undefined;
  let made: ColumnsTile["sums"] = "none";
  if (withSums && needsInput) {
    made = "both";
    sums = sumsFor(context, size, plan.blocks);
    regions.weight_sums = sums.weights!;
  } else if (withSums) {
    made = "bias";
    sums = { blocks: plan.blocks, weights: undefined, biases: context.scratch(4 * size * plan.blocks) };
  }
  if (sums !== undefined) regions.bias_sums = sums.biases;
  context.dispatch(
    columns({ kind, dtype, vector, weight, over, result, sums: made }),
    regions as never,
    { rows, columns: plan.columns, size, lines: plan.lines },
    plan.workgroups,
  );
  return sums;
}

function runWords(
  context: KernelContext,
  problem: Problem,
  result: BufferRegion,
  facts: BufferRegion,
  means: BufferRegion,
): void {
  const { dtype, kind, rows, size, weight } = problem;
  const over = overOf(problem);
  context.dispatch(
    words({ kind, dtype, vector: 1, weight: weight !== undefined, over }),
    { ...dataRegions(problem, over), facts, means } as never,
    { count: rows * size, size },
    workgroupsFor(false, result),
  );
}

/** output[column] = the sum of the blocks' sums, added to what it holds or not. */
export function writeTotal(
  context: KernelContext,
  sums: BufferRegion,
  blocks: number,
  size: number,
  output: BufferRegion,
  dtype: FloatType,
  accumulate: boolean,
): void {
  const store = storeRounded[dtype];
  const result = store === undefined ? output : context.scratch(4 * size);
  const regions: Regions = { sums, output: result };
  if (accumulate && store !== undefined) regions.old = output;
  const kept = store === undefined ? "output" : dtype;
  const lanes = lanesOfTotals(blocks);
  context.dispatch(
    totals({ lanes, old: accumulate ? kept : "none" }),
    regions as never,
    { size, blocks },
    groupsFor(size, lanes),
  );
  store?.(context, result, output, { batch: 1, rows: 1, columns: size });
}
