import type { ComputeBackend, Conv2dArguments, FloatType } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { placement } from "../../arbitraries/shapes.js";
import { draw, drawIntegers, exactLimit } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { exact, productSum, type Tolerance } from "../../tolerance.js";
import { collect, execute, measure, type Placement } from "../../workspace.js";
import { type ConvolutionCase, convolution, convolutionCases, shapeOf } from "../conv2d/cases.js";
import { constrained, widened } from "../conv2d/transformed.js";
import { type GradientRules, roundings } from "./formula.js";

/** One of the two gradients. */
export interface Gradient extends GradientRules {
  readonly operation: "conv2dInputGradient" | "conv2dFilterGradient";
  /** The operand besides the gradient of the output. */
  readonly other: "filter" | "input";
  readonly result: "inputGradient" | "filterGradient";
}

/** Of the medium call of either gradient. */
export const mediumRest: Readonly<Record<string, unknown>> = {
  ...{ inputShape: [2, 8, 24, 24], filterShape: [6, 8, 3, 3], padding: [1, 1, 1, 1], stride: [2, 1] },
  accumulate: true,
};

export interface GradientCase extends ConvolutionCase {
  readonly accumulate: boolean;
}

export function gradientCase(
  parts: Parameters<typeof convolution>[0] & { readonly accumulate?: boolean },
): GradientCase {
  return { accumulate: false, ...convolution(parts) };
}

/** One in three adds to what the result holds. */
export function withAccumulation(cases: Arbitrary<ConvolutionCase>): Arbitrary<GradientCase> {
  return fc
    .tuple(cases, fc.constantFrom(false, false, true))
    .map(([value, accumulate]) => ({ ...value, accumulate }));
}

export function gradientCases(place: Arbitrary<Placement> = placement): Arbitrary<GradientCase> {
  return withAccumulation(convolutionCases(place));
}

/** Elements of the operands of a convolution. */
export function elementsOf(value: ConvolutionCase): Readonly<Record<"input" | "filter" | "output", number>> {
  const shape = shapeOf(value);
  const { batch, inChannels, height, width, outChannels, outHeight, outWidth, kernelHeight, kernelWidth } =
    shape;
  return {
    input: batch * inChannels * height * width,
    filter: outChannels * value.inputs * kernelHeight * kernelWidth,
    output: batch * outChannels * outHeight * outWidth,
  };
}

/** The numbers of a call: the operand besides, the gradient of the output, and what the result holds, if it is added to. */
export interface GradientOperands {
  readonly other: Float64Array;
  readonly outputGradient: Float64Array;
  readonly before: Float64Array | undefined;
}

function operandsOf(
  { other, result }: Gradient,
  value: GradientCase,
  drawSome: (count: number, seed: number) => Float64Array,
): GradientOperands {
  const counts = elementsOf(value);
  return {
    other: drawSome(counts[other], value.seed),
    outputGradient: drawSome(counts.output, value.seed + 1),
    before: value.accumulate
      ? drawSome(result === "inputGradient" ? counts.input : counts.filter, value.seed + 2)
      : undefined,
  };
}

export function floats(gradient: Gradient, value: GradientCase, dtype: FloatType): GradientOperands {
  return operandsOf(gradient, value, (count, seed) => draw(value.data, count, seed, dtype));
}

/** Whole numbers, small enough for sums without rounding. */
export function wholeNumbers(gradient: Gradient, value: GradientCase, dtype: FloatType): GradientOperands {
  const limit = exactLimit(gradient.terms(shapeOf(value)) + 1, 1, dtype);
  return operandsOf(gradient, value, (count, seed) => drawIntegers(limit, count, seed));
}

type ShapeArguments = Omit<Conv2dArguments, "input" | "filter" | "bias" | "output" | "activation" | "dtype">;

/** The arguments of a convolution of the case but its operands, as callers give them. */
export function shapeArguments(value: ConvolutionCase): ShapeArguments {
  const { layout, batch, groups, inputs, outputs, size, kernel, stride, padding, dilation } = value;
  const shape = shapeOf(value);
  type Shape = readonly [number, number, number, number];
  const imagesOf = (channels: number, height: number, width: number): Shape =>
    layout === "NCHW" ? [batch, channels, height, width] : [batch, height, width, channels];
  const filterShape: Shape = [groups * outputs, inputs, kernel[0], kernel[1]];
  return {
    ...(layout === "NCHW" ? {} : { layout }),
    inputShape: imagesOf(groups * inputs, ...size),
    filterShape,
    // Given in every second case; derived in the others.
    ...(value.seed % 2 === 0
      ? { outputShape: imagesOf(groups * outputs, shape.outHeight, shape.outWidth) }
      : {}),
    ...(stride.every((step) => step === 1) ? {} : { stride }),
    ...(padding.every((extent) => extent === 0) ? {} : { padding }),
    ...(dilation.every((step) => step === 1) ? {} : { dilation }),
    ...(groups === 1 ? {} : { groups }),
  };
}

/** Runs a gradient; returns its result. */
export function runGradient(
  backend: ComputeBackend,
  { operation, other, result }: Gradient,
  dtype: FloatType,
  value: GradientCase,
  operands: GradientOperands,
): Promise<Float64Array> {
  const counts = elementsOf(value);
  const count = result === "inputGradient" ? counts.input : counts.filter;
  return execute<string>({
    ...{ backend, dtype, placement: value.placement, output: result },
    written: Array.from({ length: count }, (_, i) => i),
    operands: {
      [other]: operands.other,
      outputGradient: operands.outputGradient,
      [result]: operands.before ?? new Float64Array(count).fill(Number.NaN),
    },
    call: (slices) =>
      backend[operation]({
        ...slices,
        ...shapeArguments(value),
        ...(value.accumulate ? { accumulate: true } : {}),
        ...given(dtype),
      } as never),
  });
}

async function checkGradient(
  context: LawContext,
  gradient: Gradient,
  dtype: FloatType,
  value: GradientCase,
  operands: GradientOperands,
  tolerance: Tolerance,
): Promise<void> {
  const { other, outputGradient, before } = operands;
  const { numerics } = context;
  const shape = shapeOf(value);
  const n = roundings(gradient.terms(shape));
  const tiles = gradient.tilesOf?.(shape, dtype, numerics, outputGradient, other);
  const expected = collect((emit) =>
    gradient.formula(shape, other, outputGradient, before, widened(emit, tiles, n)),
  );
  const got = await runGradient(context.backend, gradient, dtype, value, operands);
  const allowed = tiles === undefined ? tolerance : productSum(n, dtype, numerics);
  measure(context, extentsOf(value), got, constrained(expected), allowed);
}

/** For `shapeAxes`. */
export function extentsOf(value: ConvolutionCase): readonly number[] {
  const { batch, outHeight, outWidth } = shapeOf(value);
  return [
    batch * outHeight * outWidth,
    value.inputs * value.kernel[0] * value.kernel[1],
    value.outputs * value.groups,
  ];
}

export function withinBound(
  context: LawContext,
  gradient: Gradient,
  dtype: FloatType,
  value: GradientCase,
  boundOf: typeof productSum = productSum,
): Promise<void> {
  const tolerance = boundOf(roundings(gradient.terms(shapeOf(value))), dtype, context.numerics);
  return checkGradient(context, gradient, dtype, value, floats(gradient, value, dtype), tolerance);
}

export function exactly(
  context: LawContext,
  gradient: Gradient,
  dtype: FloatType,
  value: GradientCase,
): Promise<void> {
  const operands = wholeNumbers(gradient, value, dtype);
  return checkGradient(context, gradient, dtype, value, operands, exact(dtype));
}
