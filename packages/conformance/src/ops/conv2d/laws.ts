import { type FloatType, floatTypes } from "@backplane/core";
import { oddPlacement } from "../../arbitraries/shapes.js";
import { correctlyRounded } from "../../kit/checks.js";
import type { Law, LawContext } from "../../law.js";
import { productSum, tightProductSum } from "../../tolerance.js";
import { collect, measure } from "../../workspace.js";
import { gemmFormula } from "../gemm/index.js";
import {
  type ConvolutionCase,
  checkConvolution,
  convolution,
  convolutionCases,
  depthwiseCases,
  depthwiseExamples,
  depthwiseLastExamples,
  exactly,
  extentsOf,
  floats,
  runConvolution,
  shapeOf,
  squareCases,
  window,
  withinBound,
} from "./cases.js";
import { convolutionEpilogueLaws } from "./epilogue-laws.js";
import { conv2d } from "./formula.js";
import { convolutionTiles, widened } from "./transformed.js";

/** Cases as in neural networks, scaled down as far as kernel selection allows. */
const largeCases: readonly ConvolutionCase[] = [
  convolution({ inputs: 64, outputs: 16, size: [56, 56], kernel: [3, 3], padding: [1, 1, 1, 1] }),
  convolution({
    inputs: 3,
    outputs: 16,
    size: [64, 64],
    kernel: [7, 7],
    stride: [2, 2],
    padding: [3, 3, 3, 3],
  }),
  convolution({ inputs: 3, outputs: 16, size: [224, 224], kernel: [3, 3], stride: [2, 2], bias: true }),
  convolution({ inputs: 129, outputs: 65, size: [14, 14], kernel: [1, 1], bias: true }),
  convolution({ inputs: 64, outputs: 64, size: [28, 28], kernel: [1, 1], stride: [2, 2], batch: 2 }),
  convolution({ inputs: 1, outputs: 1, groups: 65, size: [33, 29], kernel: [3, 3], padding: [1, 1, 1, 1] }),
  convolution({ inputs: 1, outputs: 2, groups: 32, size: [17, 17], kernel: [5, 5], padding: [2, 2, 2, 2] }),
  convolution({ inputs: 16, outputs: 24, groups: 4, size: [20, 20], kernel: [3, 3], dilation: [2, 2] }),
  convolution({ inputs: 130, outputs: 7, size: [9, 9], kernel: [3, 3], padding: [0, 2, 1, 0], batch: 3 }),
  convolution({ inputs: 2, outputs: 128, size: [40, 40], kernel: [5, 3], stride: [1, 2], bias: true }),
  // One more than the largest dimension that a grid of workgroups may have.
  convolution({ inputs: 1, outputs: 1, size: [1, 2], kernel: [1, 2], batch: 65_536 }),
];

/** Products of pixels, with and without steps, depthwise ones, and others. */
const channelsLastCases = [3, 4, 5, 0, 7, 8].map(
  (number): ConvolutionCase => ({ ...largeCases[number]!, layout: "NHWC" }),
);

export const conv2dLaws: readonly Law[] = floatTypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: FloatType): readonly Law[] {
  const law = (name: string, run: Law["run"], rest: Partial<Law> = {}): Law => ({
    ...{ topic: "conv2d", name, operation: "conv2d", dtype, run, ...rest },
  });
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(convolutionCases(), (value) => exactly(context, dtype, value)),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(convolutionCases(), (value) => withinBound(context, dtype, value), { runs: 2 }),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => withinBound(context, dtype, value), { quick: 5 }),
    ),
    law(
      "stays within the tight bound where rounding is to nearest",
      (context) =>
        context.forAll(convolutionCases(), (value) => {
          const { numerics } = context;
          const bound = (type: FloatType) => tightProductSum(window(value) + 1, type, numerics);
          return checkConvolution(context, dtype, value, floats(value, dtype), bound);
        }),
      correctlyRounded,
    ),
    law("touches nothing but the elements of its output", (context) =>
      context.forAll(convolutionCases(oddPlacement), (value) => withinBound(context, dtype, value)),
    ),
    law("takes images with channels last, and gives such images", (context) =>
      context.forAll(
        convolutionCases().map((value): ConvolutionCase => ({ ...value, layout: "NHWC" })),
        (value) => exactly(context, dtype, value),
      ),
    ),
    law("stays within the error bound on larger shapes with channels last", (context) =>
      context.forEach(channelsLastCases, (value) => withinBound(context, dtype, value), { quick: 3 }),
    ),
    law("takes padding as top, left, bottom, right", (context) =>
      context.forAll(lopsidedCases, (value) => withinBound(context, dtype, value), { examples: farCases }),
    ),
    law("stays within the error bound where each channel has a filter of its own", (context) =>
      context.forAll(depthwiseCases(), (value) => withinBound(context, dtype, value), {
        examples: [...depthwiseExamples, ...depthwiseLastExamples],
      }),
    ),
    law("is exact on whole numbers, and within the error bound, with filters of 3 x 3", (context) =>
      context.forAll(squareCases(oddPlacement), async (value) => {
        await exactly(context, dtype, value);
        await withinBound(context, dtype, value);
      }),
    ),
    law("gives what a matrix product of unfolded windows gives", (context) =>
      context.forAll(
        convolutionCases().map(
          (value): ConvolutionCase => ({ ...value, layout: "NCHW", groups: 1, bias: false }),
        ),
        (value) => unfolded(context, dtype, value),
      ),
    ),
    law("gives the bias, or zero, where there are no input channels", (context) =>
      context.forAll(convolutionCases(), (value) => withinBound(context, dtype, { ...value, inputs: 0 })),
    ),
    law("takes an empty batch or no output channels for nothing to do", (context) =>
      context.forAll(convolutionCases(), async (value) => {
        await withinBound(context, dtype, { ...value, batch: 0 });
        await withinBound(context, dtype, { ...value, outputs: 0 });
      }),
    ),
    law("keeps NaN out of results whose windows, or declared tiles, do not meet it", (context) =>
      context.forAll(spottedCases, (value) => aroundSpot(context, dtype, value, nan), { runs: 0.5 }),
    ),
    law("stays within the error bound around numbers near the largest", (context) =>
      context.forAll(spottedCases, (value) => aroundSpot(context, dtype, value, nearLargest[dtype]), {
        runs: 0.5,
      }),
    ),
    ...convolutionEpilogueLaws(dtype),
  ];
}

/** Images that are larger than a window and all tiles around it, and numbers near 1. */
const spottedCases = squareCases().map(
  (value): ConvolutionCase => ({
    ...{ ...value, batch: 1, inputs: 2, outputs: 3, size: [13, 17], bias: false, data: "cancelling" },
  }),
);

/** One input, and what all weights are multiplied by. */
interface Spot {
  readonly input: number;
  readonly weight: number;
}

const nan: Spot = { input: Number.NaN, weight: 1 };

/** Products are far from the ends of the range, but not all that transforms make of such inputs. */
const nearLargest: Readonly<Record<FloatType, Spot>> = {
  f32: { input: 1.5 * 2 ** 126, weight: 2 ** -26 },
  f16: { input: 1.5 * 2 ** 14, weight: 2 ** -6 },
};

/** What a spot may not reach must be right. */
async function aroundSpot(
  context: LawContext,
  dtype: FloatType,
  value: ConvolutionCase,
  spot: Spot,
): Promise<void> {
  const shape = shapeOf(value);
  const { input, filter } = floats(value, dtype);
  input[(value.seed >>> 0) % input.length] = spot.input;
  for (const [i, weight] of filter.entries()) filter[i] = weight * spot.weight;
  const n = window(value) + 1;
  const tiles = convolutionTiles(shape, dtype, context.numerics, input, filter);
  const whole = collect((emit) => conv2d(shape, input, filter, undefined, widened(emit, tiles, n)));
  const clear = collect((emit) => {
    for (const [i, place] of whole.places.entries()) {
      const [sum, magnitude] = [whole.values[i]!, whole.magnitudes[i]!];
      if (Number.isFinite(sum) && Number.isFinite(magnitude)) emit(place, sum, magnitude);
    }
  });
  const got = await runConvolution(context.backend, dtype, value, { input, filter, bias: undefined }, whole);
  measure(context, extentsOf(value), got, clear, productSum(n, dtype, context.numerics));
}

/** Different padding on every side, and an input that makes each of them count. */
const lopsidedCases = convolutionCases().map(
  (value): ConvolutionCase => ({ ...value, padding: [2, 0, 1, 3], kernel: [3, 3], dilation: [1, 1] }),
);

/** Windows far out in the padding, where the products that lead to coordinates are large. */
const far: readonly Partial<ConvolutionCase>[] = [
  { stride: [2 ** 29, 1], padding: [2 ** 29, 1, 2 ** 29 - 9, 0] },
  { stride: [1, 2 ** 16], padding: [0, 2 ** 17, 1, 2 ** 16] },
  { dilation: [2 ** 16, 2 ** 28], padding: [1, 2 ** 28, 2 ** 17, 2 ** 28] },
];
const farCases = far.map((parts) =>
  convolution({ inputs: 2, outputs: 3, size: [4, 5], kernel: [3, 3], ...parts }),
);

/** Expected values from a second formula: each window becomes a column, the filters are the rows. */
async function unfolded(context: LawContext, dtype: FloatType, value: ConvolutionCase): Promise<void> {
  const shape = shapeOf(value);
  const operands = floats(value, dtype);
  const pixels = shape.outHeight * shape.outWidth;
  const k = window(value);
  const columns = new Float64Array(value.batch * k * pixels);
  for (let row = 0; row < value.batch * k; row++) {
    const j = row % shape.kernelWidth;
    const i = Math.floor(row / shape.kernelWidth) % shape.kernelHeight;
    const plane = Math.floor(row / (shape.kernelWidth * shape.kernelHeight));
    for (let pixel = 0; pixel < pixels; pixel++) {
      const y = Math.floor(pixel / shape.outWidth) * shape.strideY + i * shape.dilationY - shape.top;
      const x = (pixel % shape.outWidth) * shape.strideX + j * shape.dilationX - shape.left;
      if (y >= 0 && y < shape.height && x >= 0 && x < shape.width)
        columns[row * pixels + pixel] = operands.input[(plane * shape.height + y) * shape.width + x]!;
    }
  }
  const m = shape.outChannels;
  const product = {
    ...{ m, n: pixels, k, alpha: 1, beta: 0, transA: false, transB: false, batch: value.batch },
    ...{ lda: k, ldb: pixels, ldc: pixels, strideA: 0, strideB: k * pixels, strideC: m * pixels },
  };
  const { input, filter } = operands;
  const tiles = convolutionTiles(shape, dtype, context.numerics, input, filter);
  const expected = collect((emit) =>
    gemmFormula(product, filter, columns, new Float64Array(0), widened(emit, tiles, k + 1)),
  );
  const got = await runConvolution(context.backend, dtype, value, operands, expected);
  measure(context, extentsOf(value), got, expected, productSum(k + 1, dtype, context.numerics));
}
