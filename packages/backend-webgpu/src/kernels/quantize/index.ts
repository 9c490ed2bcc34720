import { dtypeBytes, floatTypes, type QuantizeProblem } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import {
  indivisible,
  middleOf,
  type Segmentation,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { GROUP_WEIGHTS, quantizeProgram } from "./quantize.wgsl.js";

type Problem = QuantizeProblem<DeviceMemory>;

const programs = memoized(quantizeProgram);

function run(context: KernelContext, problem: Problem): void {
  const { dtype, scaleType, bits, block, n, k, blocks, input, b, scales, zeroPoints } = problem;
  const count = n * blocks;
  const perVector = 16 / dtypeBytes[dtype];
  const taken: BufferRegion[] = [];
  const placeOf = (region: BufferRegion, unit: number) => {
    const place = placeFor(context, region, unit, taken);
    taken.push(place);
    return place;
  };
  // One invocation writes each word, and two of them at once with 8 bits.
  const places: Record<string, BufferRegion> = { b: placeOf(b, bits), scales: placeOf(scales, 4) };
  if (zeroPoints !== undefined) places.zero_points = placeOf(zeroPoints, 4);
  const regions = { source: input, ...places };
  context.dispatch(
    programs({
      dtype,
      scaleType,
      bits,
      zeroPoints: zeroPoints !== undefined,
      vector: k % perVector === 0 && input.byteOffset % 16 === 0,
    }),
    regions,
    { count, k, blocks, block_shift: Math.log2(block) },
    Math.ceil((count * block) / GROUP_WEIGHTS),
  );
  for (const [given, place] of [
    [b, places.b],
    [scales, places.scales],
    [zeroPoints, places.zero_points],
  ] as const)
    if (given !== undefined && place !== undefined && given !== place) context.copy(given, place);
}

/**
 * The region itself, or scratch if it does not begin at a multiple of `unit` bytes, or is in the same buffer as another
 * output: a dispatch binds a buffer once if it writes it.
 */
function placeFor(
  context: KernelContext,
  region: BufferRegion,
  unit: number,
  taken: readonly BufferRegion[],
): BufferRegion {
  const isFree = taken.every(({ memory }) => memory !== region.memory);
  return isFree && region.byteOffset % unit === 0 ? region : context.scratch(region.byteLength);
}

/** Some rows, or some blocks of one row. */
function partOf(problem: Problem, first: number, size: { n: number; k: number; blocks: number }): Problem {
  const { dtype, scaleType, bits, block, k, blocks, input, b, scales, zeroPoints } = problem;
  const firstWeight = Math.floor(first / blocks) * k + (first % blocks) * block;
  const count = size.n * size.blocks;
  const bytes = (block * bits) / 8;
  return {
    ...{ ...problem, ...size },
    input: sliceOf(input, dtype, firstWeight, size.n * size.k),
    b: sliceOf(b, "u8", first * bytes, count * bytes),
    scales: sliceOf(scales, scaleType, first, count),
    zeroPoints: zeroPoints && sliceOf(zeroPoints, "u8", first, count),
  };
}

const segments: Segmentation<Problem> = {
  longestWindow: ({ input, b, scales, zeroPoints }) =>
    Math.max(
      windowOf(input),
      windowOf(b),
      windowOf(scales),
      zeroPoints === undefined ? 0 : windowOf(zeroPoints),
    ),
  scratchBound: ({ b, scales }) => Math.max(b.byteLength, scales.byteLength),

  divide(context, problem, run) {
    const { n, k, block, blocks } = problem;
    if (n > 1) {
      const middle = middleOf(n);
      run(context, partOf(problem, 0, { n: middle, k, blocks }));
      run(context, partOf(problem, middle * blocks, { n: n - middle, k, blocks }));
    } else if (blocks > 1) {
      const middle = middleOf(blocks);
      run(context, partOf(problem, 0, { n, k: middle * block, blocks: middle }));
      run(context, partOf(problem, middle, { n, k: k - middle * block, blocks: blocks - middle }));
    } else throw indivisible("quantize", windowBytes(context.features));
  },
};

/** Weights in blocks with a scale each, for quantizedGemm. */
export const quantize: OperationEntry<"quantize", Problem> = {
  operation: "quantize",
  supports: [{ dtype: floatTypes, scaleType: floatTypes }],
  run,
  segments: () => segments,
};
