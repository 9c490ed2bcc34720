import type { Activation, FloatType, QuantizedBits, QuantizedBlock } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, extent, fixedPlacement, placement } from "../../arbitraries/shapes.js";
import { type Distribution, draw, drawIntegers, random } from "../../data.js";
import { floatFormats } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { exact } from "../../tolerance.js";
import { collect, type Expected, execute, type Placement } from "../../workspace.js";
import { measureActivated } from "../epilogue.js";
import { boundOf, dequantized, type QuantizedShape, quantizedGemm, type StoredWeights } from "./formula.js";

/** One call of quantizedGemm and its data. */
export interface QuantizedCase {
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly bits: QuantizedBits;
  readonly block: QuantizedBlock;
  readonly scaleType: FloatType;
  readonly zeroPoints: boolean;
  /** Default: 0, no bias, no activation. */
  readonly beta?: number;
  readonly bias?: boolean;
  readonly activation?: Activation;
  readonly mayRoundA?: boolean;
  readonly placement: Placement;
  readonly data: Distribution;
  readonly seed: number;
}

/** Multiply-adds that one random case may cost. */
const work = 2 ** 18;

export interface CaseOptions {
  readonly placement?: Arbitrary<Placement>;
  readonly largest?: number;
  readonly zeroPoints?: Arbitrary<boolean>;
  readonly data?: Arbitrary<Distribution>;
}

/** Few rows are more frequent than many: kernels differ there. */
export function cases(options: CaseOptions = {}): Arbitrary<QuantizedCase> {
  return fc
    .record({
      m: fc.oneof(fc.integer({ min: 1, max: 10 }), extent(options.largest)),
      n: extent(options.largest),
      k: fc.oneof(extent(options.largest), fc.constantFrom(160, 191, 192, 320, 384, 511)),
      bits: fc.constantFrom<QuantizedBits[]>(4, 8),
      block: fc.constantFrom<QuantizedBlock[]>(32, 64, 128),
      scaleType: fc.constantFrom<FloatType[]>("f32", "f16"),
      zeroPoints: options.zeroPoints ?? fc.boolean(),
      placement: options.placement ?? placement,
      data: options.data ?? distribution,
      seed: dataSeed,
    })
    .filter(({ m, n, k }) => m * n * k <= work);
}

/** Returns a fixed call; `parts` says only what matters. */
export function quantizedCase(
  parts: Partial<QuantizedCase> & Pick<QuantizedCase, "m" | "n" | "k">,
): QuantizedCase {
  return {
    ...{ bits: 4, block: 32, scaleType: "f32", zeroPoints: false, data: "normal", seed: 1 },
    placement: fixedPlacement,
    ...parts,
  };
}

/** The layout that the case describes, worked out here and not by the code under test. */
export function shapeOf(
  { bits, block, m, n, k, beta = 0, mayRoundA = false }: QuantizedCase,
  dtype: FloatType,
): QuantizedShape {
  return { dtype, bits, block, m, n, k, beta, mayRoundA, blocks: Math.ceil(k / block) };
}

export interface QuantizedOperands extends StoredWeights {
  readonly a: Float64Array;
  /** C before the call. */
  readonly before: Float64Array;
  readonly bias: Float64Array | undefined;
}

/** A and the scales from the distribution of the case, any bytes in B. */
export function floatOperands(value: QuantizedCase, dtype: FloatType): QuantizedOperands {
  const { m, n, k, seed, data, scaleType } = value;
  const { blocks } = shapeOf(value, dtype);
  // Weights are up to 128 times a scale, and sums must stay in the range of f16.
  const share = dtype === "f16" && value.bits === 8 ? 2 ** -4 : 1;
  const scales = draw(data === "wide" ? "uniform" : data, n * blocks, seed + 1, scaleType);
  return {
    a: draw(data, m * k, seed, dtype),
    scales: scales.map((scale) => (Math.abs(scale) < 2 ** -10 ? 1 : scale) * share),
    ...storedBytes(value, dtype),
    before: value.beta ? draw(data, m * n, seed + 4, dtype) : unread(value),
    bias: value.bias ? draw(data, n, seed + 2, dtype) : undefined,
  };
}

/** Whole numbers small enough for sums without rounding. */
export function integerOperands(value: QuantizedCase, dtype: FloatType): QuantizedOperands {
  const { m, n, k, seed, bits } = value;
  const { blocks } = shapeOf(value, dtype);
  const scale = 2;
  const most = 2 ** bits * scale * (k + 1);
  const limit =
    dtype === "f16" ? 1 : Math.max(Math.min(Math.floor(floatFormats.f32.exactUpTo / most), 64), 1);
  return {
    a: drawIntegers(limit, m * k, seed),
    scales: drawIntegers(scale, n * blocks, seed + 1),
    ...storedBytes(value, dtype),
    before: value.beta ? drawIntegers(limit, m * n, seed + 4) : unread(value),
    bias: value.bias ? drawIntegers(limit, n, seed + 2) : undefined,
  };
}

/** C that must not be read. */
function unread({ m, n }: QuantizedCase): Float64Array {
  return new Float64Array(m * n).fill(Number.NaN);
}

/** B with any bytes, also past k; zero points of the range of its numbers. */
function storedBytes(value: QuantizedCase, dtype: FloatType): Pick<StoredWeights, "b" | "zeroPoints"> {
  const { n, bits, block, seed } = value;
  const { blocks } = shapeOf(value, dtype);
  const next = random(seed + 3);
  const below = (end: number, count: number) =>
    Float64Array.from({ length: count }, () => Math.floor(next() * end));
  return {
    b: below(256, (n * blocks * block * bits) / 8),
    zeroPoints: value.zeroPoints ? below(2 ** bits, n * blocks) : undefined,
  };
}

export interface Outcome {
  readonly got: Float64Array;
  /** Before the activation, if there is one. */
  readonly expected: Expected;
}

/** Runs a case and computes the expected result. */
export async function run(
  { backend, numerics }: Pick<LawContext, "backend" | "numerics">,
  dtype: FloatType,
  value: QuantizedCase,
  operands: QuantizedOperands,
): Promise<Outcome> {
  const shape = shapeOf(value, dtype);
  const { a, b, scales, zeroPoints, before, bias } = operands;
  const expected = collect((emit) =>
    quantizedGemm(shape, a, dequantized(shape, operands), before, emit, numerics, bias),
  );
  const { m, n, k, bits, block, scaleType, beta, activation, mayRoundA } = value;
  const rest = {
    ...{ m, n, k },
    ...(bits === 4 ? {} : { bits }),
    ...(block === 32 ? {} : { block }),
    ...(scaleType === "f32" ? {} : { scaleType }),
    ...(beta === undefined ? {} : { beta }),
    ...(activation === undefined ? {} : { activation }),
    ...(mayRoundA === undefined ? {} : { mayRoundA }),
    ...given(dtype),
  };
  const stored = {
    ...{ a, b, scales },
    ...(zeroPoints === undefined ? {} : { zeroPoints }),
    ...(bias === undefined ? {} : { bias }),
    c: before,
  };
  const got = await execute<"a" | "b" | "scales" | "c">({
    ...{ backend, dtype, placement: value.placement, output: "c", written: expected.places },
    dtypes: { b: "u8", scales: scaleType, zeroPoints: "u8" } as object,
    operands: stored,
    call: (slices) => backend.quantizedGemm({ ...rest, ...slices }),
  });
  return { got, expected };
}

/** For `shapeAxes`. */
export function extentsOf({ m, n, k }: QuantizedCase): readonly number[] {
  return [m, n, k];
}

export async function checkWithinBound(
  context: LawContext,
  dtype: FloatType,
  value: QuantizedCase,
  operands: QuantizedOperands = floatOperands(value, dtype),
): Promise<void> {
  const { got, expected } = await run(context, dtype, value, operands);
  const bound = boundOf(value.k, dtype, context.numerics);
  measureActivated(context, dtype, extentsOf(value), got, expected, value.activation, bound);
}

/** Checks whole numbers, for which every order of summing gives the same bits. */
export async function checkExact(context: LawContext, dtype: FloatType, value: QuantizedCase): Promise<void> {
  const { got, expected } = await run(context, dtype, value, integerOperands(value, dtype));
  measureActivated(context, dtype, extentsOf(value), got, expected, value.activation, exact);
}
