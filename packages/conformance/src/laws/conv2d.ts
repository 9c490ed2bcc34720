import { type ComputeBackend, type DType, dtypes } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, fixedPlacement, oddPlacement, placement } from "../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, exactLimit } from "../data.js";
import type { Law, LawContext } from "../law.js";
import { type Conv2dShape, conv2d } from "../reference/conv2d.js";
import { gemm } from "../reference/gemm.js";
import { exact, productSum, type Tolerance, tightProductSum } from "../tolerance.js";
import { collect, type Expected, execute, measure, type Placement } from "../workspace.js";
import { correctlyRounded } from "./support.js";

type Pair = readonly [number, number];

interface ConvolutionCase {
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
  readonly placement: Placement;
  readonly data: Distribution;
  readonly seed: number;
}

function convolution(
  parts: Partial<ConvolutionCase> & Pick<ConvolutionCase, "inputs" | "outputs" | "size" | "kernel">,
): ConvolutionCase {
  return {
    ...{ batch: 1, groups: 1, stride: [1, 1], padding: [0, 0, 0, 0], dilation: [1, 1], bias: false },
    ...{ placement: fixedPlacement, data: "uniform", seed: 1 },
    ...parts,
  };
}

/** As networks have them, scaled down as far as kernel selection allows. */
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

/** Multiply-adds that one random case may cost. */
const work = 2 ** 18;

function cases(place: Arbitrary<Placement> = placement): Arbitrary<ConvolutionCase> {
  const upTo = (...values: readonly number[]) => fc.constantFrom(...values);
  const pairOf = (values: Arbitrary<number>) => fc.tuple(values, values);
  const padding = upTo(0, 0, 1, 2, 3, 5);
  return fc
    .record({
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
    .filter((value) => {
      const { outHeight, outWidth } = shapeOf(value);
      if (outHeight < 1 || outWidth < 1) return false;
      const window = value.inputs * value.kernel[0] * value.kernel[1];
      return value.batch * value.groups * value.outputs * outHeight * outWidth * window <= work;
    });
}

function shapeOf(value: ConvolutionCase): Conv2dShape {
  const { batch, groups, inputs, outputs, size, kernel, stride, padding, dilation } = value;
  const [height, width] = size;
  const [kernelHeight, kernelWidth] = kernel;
  const [strideY, strideX] = stride;
  const [dilationY, dilationX] = dilation;
  const [top, left, bottom, right] = padding;
  const places = (extent: number, reach: number, step: number) => Math.floor((extent - reach) / step) + 1;
  return {
    ...{ batch, groups, inChannels: groups * inputs, outChannels: groups * outputs, height, width },
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

const floats = (value: ConvolutionCase, dtype: DType): ConvolutionOperands =>
  operandsOf(value, (count, seed) => draw(value.data, count, seed, dtype));

async function run(
  backend: ComputeBackend,
  dtype: DType,
  value: ConvolutionCase,
  operands: ConvolutionOperands,
  expected: Expected,
): Promise<Float64Array> {
  const { batch, groups, inputs, outputs, size, kernel, stride, padding, dilation } = value;
  const { input, filter, bias } = operands;
  const shape = shapeOf(value);
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
        inputShape: [batch, groups * inputs, size[0], size[1]],
        filterShape: [groups * outputs, inputs, kernel[0], kernel[1]],
        // Given in every second case; derived in the others.
        ...(value.seed % 2 === 0
          ? { outputShape: [batch, groups * outputs, shape.outHeight, shape.outWidth] as const }
          : {}),
        ...(stride.every((step) => step === 1) ? {} : { stride }),
        ...(padding.every((extent) => extent === 0) ? {} : { padding }),
        ...(dilation.every((step) => step === 1) ? {} : { dilation }),
        ...(groups === 1 ? {} : { groups }),
        ...(dtype === "f32" ? {} : { dtype }),
      }),
  });
}

async function check(
  context: LawContext,
  dtype: DType,
  value: ConvolutionCase,
  operands: ConvolutionOperands,
  tolerance: Tolerance,
): Promise<void> {
  const { input, filter, bias } = operands;
  const expected = collect((emit) => conv2d(shapeOf(value), input, filter, bias, emit));
  const got = await run(context.backend, dtype, value, operands, expected);
  measure(context, extentsOf(value), got, expected, tolerance);
}

/** For `shapeAxes`. */
function extentsOf(value: ConvolutionCase): readonly number[] {
  const { outHeight, outWidth, outChannels } = shapeOf(value);
  return [outHeight * outWidth, window(value), outChannels];
}

/** Products per output element. */
function window(value: ConvolutionCase): number {
  return value.inputs * value.kernel[0] * value.kernel[1];
}

function withinBound(context: LawContext, dtype: DType, value: ConvolutionCase): Promise<void> {
  const tolerance = productSum(window(value) + 1, dtype, context.numerics);
  return check(context, dtype, value, floats(value, dtype), tolerance);
}

export const conv2dLaws: readonly Law[] = dtypes.flatMap((dtype) => lawsFor(dtype));

function lawsFor(dtype: DType): readonly Law[] {
  const law = (name: string, run: Law["run"], rest: Partial<Law> = {}): Law => ({
    ...{ topic: "conv2d", name, operation: "conv2d", dtype, run, ...rest },
  });
  return [
    law("is exact on whole numbers", (context) =>
      context.forAll(cases(), (value) => {
        const limit = exactLimit(window(value) + 1, 1, dtype);
        const operands = operandsOf(value, (count, seed) => drawIntegers(limit, count, seed));
        return check(context, dtype, value, operands, exact(dtype));
      }),
    ),
    law("stays within the error bound", (context) =>
      context.forAll(cases(), (value) => withinBound(context, dtype, value), { runs: 2 }),
    ),
    law("stays within the error bound on larger shapes", (context) =>
      context.forEach(largeCases, (value) => withinBound(context, dtype, value), { quick: 5 }),
    ),
    law(
      "stays within the tight bound where rounding is to nearest",
      (context) =>
        context.forAll(cases(), (value) => {
          const { numerics } = context;
          const tolerance = tightProductSum(window(value) + 1, dtype, numerics);
          return check(context, dtype, value, floats(value, dtype), tolerance);
        }),
      correctlyRounded,
    ),
    law("touches nothing but the elements of its output", (context) =>
      context.forAll(cases(oddPlacement), (value) => withinBound(context, dtype, value)),
    ),
    law("takes padding as top, left, bottom, right", (context) =>
      context.forAll(lopsidedCases, (value) => withinBound(context, dtype, value)),
    ),
    law("gives what a matrix product of unfolded windows gives", (context) =>
      context.forAll(
        cases().map((value): ConvolutionCase => ({ ...value, groups: 1, bias: false })),
        (value) => unfolded(context, dtype, value),
      ),
    ),
    law("gives the bias, or zero, where there are no input channels", (context) =>
      context.forAll(cases(), (value) => withinBound(context, dtype, { ...value, inputs: 0 })),
    ),
    law("takes an empty batch or no output channels for nothing to do", (context) =>
      context.forAll(cases(), async (value) => {
        await withinBound(context, dtype, { ...value, batch: 0 });
        await withinBound(context, dtype, { ...value, outputs: 0 });
      }),
    ),
  ];
}

/** Different padding on every side, and an input that makes each of them count. */
const lopsidedCases = cases().map(
  (value): ConvolutionCase => ({ ...value, padding: [2, 0, 1, 3], kernel: [3, 3], dilation: [1, 1] }),
);

/** Expected values from a second formula: each window becomes a column, the filters are the rows. */
async function unfolded(context: LawContext, dtype: DType, value: ConvolutionCase): Promise<void> {
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
  const expected = collect((emit) => gemm(product, operands.filter, columns, new Float64Array(0), emit));
  const got = await run(context.backend, dtype, value, operands, expected);
  measure(context, extentsOf(value), got, expected, productSum(k + 1, dtype, context.numerics));
}
