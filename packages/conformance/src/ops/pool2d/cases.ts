import type { FloatType, Pool2dArguments, Pool2dKind } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, fixedPlacement, placement } from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers } from "../../data.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { exact, type Tolerance } from "../../tolerance.js";
import { collect, type Expected, executeAll, measure, type Placement } from "../../workspace.js";
import { type Pool2dShape, placesOf, pool2d, poolTolerance } from "./formula.js";

type Pair = readonly [number, number];

export interface Pool2dCase {
  readonly kind: Pool2dKind;
  readonly layout: "NCHW" | "NHWC";
  readonly batch: number;
  readonly channels: number;
  /** Height and width. */
  readonly size: Pair;
  readonly kernel: Pair;
  /** Null: not given, which means the kernel. */
  readonly stride: Pair | null;
  readonly padding: readonly [number, number, number, number];
  readonly dilation: Pair;
  readonly ceil: boolean;
  /** Of means. */
  readonly countPadding: boolean;
  /** Of maxima. */
  readonly indices: boolean;
  readonly placement: Placement;
  /** `ties`: small whole numbers, most of them equal to others. */
  readonly data: Distribution | "ties";
  readonly seed: number;
}

export function pooling(
  parts: Partial<Pool2dCase> & Pick<Pool2dCase, "kind" | "size" | "kernel">,
): Pool2dCase {
  return {
    ...{ layout: "NCHW", batch: 1, channels: 1, stride: null, padding: [0, 0, 0, 0], dilation: [1, 1] },
    ...{ ceil: false, countPadding: false, indices: false },
    ...{ placement: fixedPlacement, data: "uniform", seed: 1 },
    ...parts,
  };
}

/** Elements that one random case may read. */
const work = 2 ** 15;

export function poolCases(
  kinds: readonly Pool2dKind[],
  place: Arbitrary<Placement> = placement,
): Arbitrary<Pool2dCase> {
  const upTo = (...values: readonly number[]) => fc.constantFrom(...values);
  const pairOf = (values: Arbitrary<number>) => fc.tuple(values, values);
  const padding = upTo(0, 0, 0, 1, 1, 2, 3);
  return fc
    .record({
      kind: fc.constantFrom(...kinds),
      layout: fc.constantFrom<Pool2dCase["layout"][]>("NCHW", "NHWC"),
      batch: upTo(1, 2, 3),
      channels: upTo(1, 2, 3, 4, 5, 8, 17, 32, 33),
      size: pairOf(upTo(1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 17, 31, 33, 64, 65)),
      kernel: pairOf(upTo(1, 2, 2, 3, 3, 4, 5, 7)),
      stride: fc.option(pairOf(upTo(1, 1, 2, 2, 3, 4, 9))),
      padding: fc.tuple(padding, padding, padding, padding),
      dilation: pairOf(upTo(1, 1, 1, 2, 3)),
      ceil: fc.boolean(),
      countPadding: fc.boolean(),
      indices: fc.boolean(),
      placement: place,
      data: fc.oneof(distribution, fc.constant<"ties">("ties")),
      seed: dataSeed,
    })
    .filter(isAllowed);
}

/** Small enough, and each window meets an element. */
export function isAllowed(value: Pool2dCase): boolean {
  const shape = shapeOf(value);
  const { outHeight, outWidth, kernelHeight, kernelWidth } = shape;
  if (outHeight < 1 || outWidth < 1) return false;
  if (shape.planes * shape.inner * outHeight * outWidth * kernelHeight * kernelWidth > work) return false;
  const [y, x] = axesOf(shape);
  const meet = (windows: number, axis: typeof y) =>
    Array.from({ length: windows }, (_, i) => placesOf(i, axis)).every(({ inside }) => inside.length > 0);
  return meet(outHeight, y) && meet(outWidth, x);
}

/** For `placesOf`. */
export function axesOf(
  shape: Pool2dShape,
): readonly [Parameters<typeof placesOf>[1], Parameters<typeof placesOf>[1]] {
  const { height, width, kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = shape;
  const { top, left, bottom, right } = shape;
  return [
    { size: height, count: kernelHeight, step: strideY, spread: dilationY, before: top, after: bottom },
    { size: width, count: kernelWidth, step: strideX, spread: dilationX, before: left, after: right },
  ] as const;
}

/** Computed here, independently of the code under test. */
export function shapeOf(value: Pool2dCase): Pool2dShape {
  const { kind, layout, batch, channels, size, kernel, padding, dilation, ceil } = value;
  const [strideY, strideX] = value.stride ?? kernel;
  const [top, left, bottom, right] = padding;
  const windows = (extent: number, before: number, after: number, reach: number, step: number) => {
    const steps = (extent + before + after - reach) / step;
    const all = 1 + (ceil ? Math.ceil(steps) : Math.floor(steps));
    // The last window must begin in the input or before it.
    return ceil && (all - 1) * step >= extent + before ? all - 1 : all;
  };
  return {
    ...{ kind, strideY, strideX, top, left, bottom, right },
    ...(layout === "NCHW" ? { planes: batch * channels, inner: 1 } : { planes: batch, inner: channels }),
    ...{ height: size[0], width: size[1], kernelHeight: kernel[0], kernelWidth: kernel[1] },
    ...{ dilationY: dilation[0], dilationX: dilation[1] },
    outHeight: windows(size[0], top, bottom, dilation[0] * (kernel[0] - 1) + 1, strideY),
    outWidth: windows(size[1], left, right, dilation[1] * (kernel[1] - 1) + 1, strideX),
    countPadding: kind === "mean" && value.countPadding,
  };
}

/** For `shapeAxes`. */
export function extentsOf(value: Pool2dCase): readonly number[] {
  const { outHeight, outWidth, planes, inner } = shapeOf(value);
  return [outHeight * outWidth, value.kernel[0] * value.kernel[1], planes * inner];
}

export function elementsOf(value: Pool2dCase, dtype: FloatType): Float64Array {
  const { batch, channels, size, data, seed } = value;
  const count = batch * channels * size[0] * size[1];
  return data === "ties" ? drawIntegers(2, count, seed) : draw(data, count, seed, dtype);
}

/** All arguments but the operands and their type. */
export function argumentsFor(value: Pool2dCase): Omit<Pool2dArguments, "input" | "output" | "dtype"> {
  const { kind, layout, batch, channels, size, kernel, stride, padding, dilation, ceil, countPadding } =
    value;
  const { outHeight, outWidth } = shapeOf(value);
  const shapeWith = (height: number, width: number): readonly [number, number, number, number] =>
    layout === "NCHW" ? [batch, channels, height, width] : [batch, height, width, channels];
  return {
    ...{ kind, inputShape: shapeWith(...size), kernel },
    ...(layout === "NCHW" ? {} : { layout }),
    // Given in every second case; derived in the others.
    ...(value.seed % 2 === 0 ? { outputShape: shapeWith(outHeight, outWidth) } : {}),
    ...(stride === null ? {} : { stride }),
    ...(padding.every((extent) => extent === 0) ? {} : { padding }),
    ...(dilation.every((step) => step === 1) ? {} : { dilation }),
    ...(ceil ? { ceil } : {}),
    ...(kind === "mean" && countPadding ? { countPadding } : {}),
  };
}

/** The outputs as they are stored, and what is expected of them. */
export interface Pooled {
  readonly output: Float64Array;
  readonly indices: Float64Array | undefined;
  readonly expected: Expected;
  readonly places: Expected;
}

/** Runs a case. Elements outside of all windows are poison. */
export async function runPool(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  value: Pool2dCase,
  input: Float64Array,
): Promise<Pooled> {
  const shape = shapeOf(value);
  const wantsIndices = value.kind === "max" && value.indices;
  let places: Expected = { places: [], values: [], magnitudes: [] };
  const expected = collect((emit) => {
    places = collect((emitIndex) => pool2d(shape, input, emit, emitIndex));
  });
  const outputs = () => new Float64Array(expected.places.length).fill(Number.NaN);
  const got = await executeAll<"input" | "output" | "indices">({
    ...{ backend, dtype, dtypes: { indices: "i32" }, placement: value.placement },
    operands: {
      input: onlyInWindows(shape, input),
      output: outputs(),
      ...(wantsIndices ? { indices: outputs() } : {}),
    } as Record<"input" | "output" | "indices", Float64Array>,
    written: { output: expected.places, ...(wantsIndices ? { indices: expected.places } : {}) },
    call: (slices) =>
      backend.pool2d({
        ...slices,
        ...argumentsFor(value),
        ...given(dtype),
      }),
  });
  return { output: got.output!, indices: got.indices, expected, places };
}

function onlyInWindows(shape: Pool2dShape, input: Float64Array): Float64Array {
  const [y, x] = axesOf(shape);
  const met = (windows: number, axis: typeof y) => {
    const all = new Uint8Array(axis.size);
    for (let i = 0; i < windows; i++) for (const place of placesOf(i, axis).inside) all[place] = 1;
    return all;
  };
  const [rows, columns] = [met(shape.outHeight, y), met(shape.outWidth, x)];
  return input.map((element, i) => {
    const pixel = Math.floor(i / shape.inner);
    const isMet = rows[Math.floor(pixel / shape.width) % shape.height]! * columns[pixel % shape.width]!;
    return isMet === 1 ? element : Number.NaN;
  });
}

export async function checkPool(
  context: LawContext,
  dtype: FloatType,
  value: Pool2dCase,
  input: Float64Array = elementsOf(value, dtype),
  tolerance?: Tolerance,
): Promise<void> {
  const { output, indices, expected, places } = await runPool(context, dtype, value, input);
  const { kind, kernel } = value;
  const extents = extentsOf(value);
  const allowed = tolerance ?? poolTolerance(kind, kernel[0] * kernel[1], dtype, context.numerics);
  measure(context, extents, output, expected, allowed);
  if (indices !== undefined) measure(context, extents, indices, places, () => 0);
}

/** On whole numbers, small enough for sums without rounding. */
export function exactly(context: LawContext, dtype: FloatType, value: Pool2dCase): Promise<void> {
  const { batch, channels, size, kernel, seed } = value;
  const limit = Math.min(512, Math.floor(2 ** 11 / (kernel[0] * kernel[1])));
  const input = drawIntegers(limit, batch * channels * size[0] * size[1], seed);
  return checkPool(context, dtype, value, input, value.kind === "max" ? () => 0 : exact(dtype));
}
