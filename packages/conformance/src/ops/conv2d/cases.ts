import type { Activation, ComputeBackend, FloatType } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, fixedPlacement, placement } from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, exactLimit } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { exact, productSum, type Tolerance } from "../../tolerance.js";
import { collect, type Expected, execute, type Placement } from "../../workspace.js";
import { measureActivated } from "../epilogue.js";
import { type Conv2dShape, conv2d } from "./formula.js";
import { constrained, convolutionTiles, widened } from "./transformed.js";

type Pair = readonly [number, number];

export interface ConvolutionCase {
  readonly layout: "NCHW" | "NHWC";
  readonly batch: number;
  readonly groups: number;
  /** Channels per group. */
  readonly inputs: number;
  readonly outputs: number;
  /** Height and width. */
  readonly size: Pair;
  readonly kernel: Pair;
  readonly stride: Pair;
  readonly padding: readonly [number, number, number, number];
  readonly dilation: Pair;
  readonly bias: boolean;
  /** Default: none. */
  readonly activation?: Activation;
  readonly placement: Placement;
  readonly data: Distribution;
  readonly seed: number;
}

export function convolution(
  parts: Partial<ConvolutionCase> & Pick<ConvolutionCase, "inputs" | "outputs" | "size" | "kernel">,
): ConvolutionCase {
  return {
    ...{
      layout: "NCHW",
      batch: 1,
      groups: 1,
      stride: [1, 1],
      padding: [0, 0, 0, 0],
      dilation: [1, 1],
      bias: false,
    },
    ...{ placement: fixedPlacement, data: "uniform", seed: 1 },
    ...parts,
  };
}

/** Multiply-adds that one random case may cost. */
const work = 2 ** 18;

export function convolutionCases(place: Arbitrary<Placement> = placement): Arbitrary<ConvolutionCase> {
  const upTo = (...values: readonly number[]) => fc.constantFrom(...values);
  const pairOf = (values: Arbitrary<number>) => fc.tuple(values, values);
  const padding = upTo(0, 0, 1, 2, 3, 5);
  return fc
    .record({
      layout: fc.constantFrom("NCHW", "NCHW", "NHWC"),
      batch: upTo(1, 2, 3),
      groups: upTo(1, 1, 1, 2, 3, 8),
      inputs: upTo(1, 2, 3, 4, 7, 8, 9, 16, 17),
      outputs: upTo(1, 2, 3, 4, 5, 8, 16, 17, 33),
      size: pairOf(upTo(1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 31, 33)),
      kernel: pairOf(upTo(1, 2, 3, 3, 4, 5, 7)),
      stride: pairOf(upTo(1, 1, 2, 3)),
      padding: fc.tuple(padding, padding, padding, padding),
      dilation: pairOf(upTo(1, 1, 2, 3)),
      bias: fc.boolean(),
      placement: place,
      data: distribution,
      seed: dataSeed,
    })
    .filter(isFeasible);
}

function isFeasible(value: ConvolutionCase): boolean {
  const { outHeight, outWidth } = shapeOf(value);
  if (outHeight < 1 || outWidth < 1) return false;
  return value.batch * value.groups * value.outputs * outHeight * outWidth * window(value) <= work;
}

/** The filters that are most in use, 3 x 3 for all channels, for which libraries have algorithms of their own. */
export function squareCases(place: Arbitrary<Placement> = placement): Arbitrary<ConvolutionCase> {
  return convolutionCases(place)
    .map(
      (value): ConvolutionCase => ({
        ...{ ...value, groups: 1, kernel: [3, 3], stride: [1, 1], dilation: [1, 1] },
      }),
    )
    .filter(isFeasible);
}

/** One input channel for each group, with the square windows that libraries have kernels of their own for. */
export function depthwiseCases(): Arbitrary<ConvolutionCase> {
  const side = fc.constantFrom(3, 3, 5, 7);
  const padding = fc.nat({ max: 4 });
  const extent = fc.integer({ min: 7, max: 34 });
  return fc
    .record({
      layout: fc.constantFrom("NCHW", "NCHW", "NHWC"),
      ...{ side, step: fc.constantFrom(1, 2), multiplier: fc.constantFrom(1, 1, 1, 2) },
      ...{
        batch: fc.constantFrom(1, 2),
        groups: fc.constantFrom(2, 3, 8, 9),
        size: fc.tuple(extent, extent),
      },
      ...{ padding: fc.tuple(padding, padding, padding, padding), bias: fc.boolean(), placement },
      ...{ data: distribution, seed: dataSeed },
    })
    .map(({ side, step, multiplier, ...rest }) => ({
      ...convolution({ inputs: 1, outputs: multiplier, kernel: [side, side], stride: [step, step], ...rest }),
    }));
}

/** Each of those windows and steps, in both layouts, with odd and with even padding at the top and at the left. */
export const depthwiseExamples: readonly ConvolutionCase[] = [3, 5, 7].flatMap((side) =>
  [1, 2].flatMap((step) =>
    (["NCHW", "NHWC"] as const).flatMap((layout) =>
      [1, 2].map((before) =>
        convolution({
          ...{ layout, inputs: 1, outputs: 1, groups: 3, size: [11, 14] },
          ...{ kernel: [side, side], stride: [step, step], padding: [3 - before, before, 1, 2] },
        }),
      ),
    ),
  ),
);

/** The same with channels last and as many of them as vectors have elements, in strips that end early. */
export const depthwiseLastExamples: readonly ConvolutionCase[] = (
  [
    [3, 1, 1],
    [3, 2, 1],
    [5, 1, 2],
  ] as const
).map(([side, step, spread]) =>
  convolution({
    ...{ layout: "NHWC", batch: 2, inputs: 1, outputs: 1, groups: 8, size: [11, 14] },
    ...{ kernel: [side, side], stride: [step, step], padding: [0, 2, 1, 3], dilation: [spread, spread] },
  }),
);

export function shapeOf(value: ConvolutionCase): Conv2dShape {
  const { batch, groups, inputs, outputs, size, kernel, stride, padding, dilation } = value;
  const [height, width] = size;
  const [kernelHeight, kernelWidth] = kernel;
  const [strideY, strideX] = stride;
  const [dilationY, dilationX] = dilation;
  const [top, left, bottom, right] = padding;
  const places = (extent: number, reach: number, step: number) => Math.floor((extent - reach) / step) + 1;
  return {
    ...{
      layout: value.layout,
      batch,
      groups,
      inChannels: groups * inputs,
      outChannels: groups * outputs,
      height,
      width,
    },
    ...{ kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX, top, left, bottom, right },
    outHeight: places(height + top + bottom, dilationY * (kernelHeight - 1) + 1, strideY),
    outWidth: places(width + left + right, dilationX * (kernelWidth - 1) + 1, strideX),
  };
}

interface ConvolutionOperands {
  readonly input: Float64Array;
  readonly filter: Float64Array;
  readonly bias: Float64Array | undefined;
}

function operandsOf(
  value: ConvolutionCase,
  drawSome: (count: number, seed: number) => Float64Array,
): ConvolutionOperands {
  const { batch, groups, inputs, outputs, size, kernel, seed } = value;
  return {
    input: drawSome(batch * groups * inputs * size[0] * size[1], seed),
    filter: drawSome(groups * outputs * inputs * kernel[0] * kernel[1], seed + 1),
    bias: value.bias ? drawSome(groups * outputs, seed + 2) : undefined,
  };
}

export const floats = (value: ConvolutionCase, dtype: FloatType): ConvolutionOperands =>
  operandsOf(value, (count, seed) => draw(value.data, count, seed, dtype));

export async function runConvolution(
  backend: ComputeBackend,
  dtype: FloatType,
  value: ConvolutionCase,
  operands: ConvolutionOperands,
  expected: Expected,
): Promise<Float64Array> {
  const { batch, groups, inputs, outputs, size, kernel, stride, padding, dilation } = value;
  const { input, filter, bias } = operands;
  const shape = shapeOf(value);
  const imagesOf = (
    channels: number,
    height: number,
    width: number,
  ): readonly [number, number, number, number] =>
    value.layout === "NCHW" ? [batch, channels, height, width] : [batch, height, width, channels];
  const output = new Float64Array(expected.places.length).fill(Number.NaN);
  return execute({
    ...{ backend, dtype, placement: value.placement, output: "output", written: expected.places },
    operands: { input, filter, output, ...(bias === undefined ? {} : { bias }) } as Record<
      "input" | "filter" | "output" | "bias",
      Float64Array
    >,
    call: (slices) =>
      backend.conv2d({
        ...slices,
        ...(value.layout === "NCHW" ? {} : { layout: value.layout }),
        inputShape: imagesOf(groups * inputs, ...size),
        filterShape: [groups * outputs, inputs, kernel[0], kernel[1]],
        // Given in every second case; derived in the others.
        ...(value.seed % 2 === 0
          ? { outputShape: imagesOf(groups * outputs, shape.outHeight, shape.outWidth) }
          : {}),
        ...(stride.every((step) => step === 1) ? {} : { stride }),
        ...(padding.every((extent) => extent === 0) ? {} : { padding }),
        ...(dilation.every((step) => step === 1) ? {} : { dilation }),
        ...(groups === 1 ? {} : { groups }),
        ...(value.activation === undefined ? {} : { activation: value.activation }),
        ...given(dtype),
      }),
  });
}

export async function checkConvolution(
  context: LawContext,
  dtype: FloatType,
  value: ConvolutionCase,
  operands: ConvolutionOperands,
  bound: (dtype: FloatType) => Tolerance,
): Promise<void> {
  const { input, filter, bias } = operands;
  const shape = shapeOf(value);
  const n = window(value) + 1;
  const tiles = convolutionTiles(shape, dtype, context.numerics, input, filter);
  const expected = collect((emit) => conv2d(shape, input, filter, bias, widened(emit, tiles, n)));
  const got = await runConvolution(context.backend, dtype, value, operands, expected);
  const allowed = tiles === undefined ? bound : () => productSum(n, dtype, context.numerics);
  measureActivated(context, dtype, extentsOf(value), got, constrained(expected), value.activation, allowed);
}

/** For `shapeAxes`. */
export function extentsOf(value: ConvolutionCase): readonly number[] {
  const { outHeight, outWidth, outChannels } = shapeOf(value);
  return [outHeight * outWidth, window(value), outChannels];
}

/** Products per output element. */
export function window(value: ConvolutionCase): number {
  return value.inputs * value.kernel[0] * value.kernel[1];
}

export function withinBound(context: LawContext, dtype: FloatType, value: ConvolutionCase): Promise<void> {
  const bound = (type: FloatType) => productSum(window(value) + 1, type, context.numerics);
  return checkConvolution(context, dtype, value, floats(value, dtype), bound);
}

/** On whole numbers, small enough for sums without rounding. */
export function exactly(context: LawContext, dtype: FloatType, value: ConvolutionCase): Promise<void> {
  const limit = exactLimit(window(value) + 1, 1, dtype);
  const operands = operandsOf(value, (count, seed) => drawIntegers(limit, count, seed));
  return checkConvolution(context, dtype, value, operands, exact);
}
