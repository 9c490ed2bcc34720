import type { FloatType, QuantizedBits, QuantizedBlock } from "@backplane/core";
import fc, { type Arbitrary } from "fast-check";
import { dataSeed, distribution, extent, fixedPlacement, placement } from "../../arbitraries/shapes.js";
import { type Distribution, draw, random, roundTo } from "../../data.js";
import { floatFormats } from "../../elements.js";
import { given } from "../../kit/arguments.js";
import type { LawContext } from "../../law.js";
import { executeAll, measure, type Placement } from "../../workspace.js";
import { type Quantized, type QuantizeShape, quantize } from "./formula.js";

/**
 * How weights are drawn, if not from a distribution. `multiples`: of the scale of their block. `ties`: also numbers half
 * way between those, and the numbers next to them.
 */
export type WeightData = Distribution | "multiples" | "ties";

/** One call of quantize and its data. */
export interface QuantizeCase {
  readonly n: number;
  readonly k: number;
  readonly bits: QuantizedBits;
  readonly block: QuantizedBlock;
  readonly scaleType: FloatType;
  readonly zeroPoints: boolean;
  readonly placement: Placement;
  readonly data: WeightData;
  readonly seed: number;
}

export interface CaseOptions {
  readonly placement?: Arbitrary<Placement>;
  readonly data?: Arbitrary<WeightData>;
}

export function cases(options: CaseOptions = {}): Arbitrary<QuantizeCase> {
  return fc
    .record({
      n: extent(33),
      k: fc.oneof(extent(), fc.constantFrom(160, 192, 320, 384, 512)),
      bits: fc.constantFrom<QuantizedBits[]>(4, 8),
      block: fc.constantFrom<QuantizedBlock[]>(32, 64, 128),
      scaleType: fc.constantFrom<FloatType[]>("f32", "f16"),
      zeroPoints: fc.boolean(),
      placement: options.placement ?? placement,
      data: options.data ?? distribution,
      seed: dataSeed,
    })
    .filter(({ n, k }) => n * k <= 2 ** 12);
}

/** Returns a fixed call; `parts` says only what matters. */
export function quantizeCase(parts: Partial<QuantizeCase> & Pick<QuantizeCase, "n" | "k">): QuantizeCase {
  return {
    ...{ bits: 4, block: 32, scaleType: "f32", zeroPoints: false, data: "normal", seed: 1 },
    placement: fixedPlacement,
    ...parts,
  };
}

export function shapeOf({ bits, block, n, k, scaleType }: QuantizeCase): QuantizeShape {
  return { bits, block, n, k, scaleType, blocks: Math.ceil(k / block) };
}

/** n rows of k weights that the type holds. */
export function weightsOf(value: QuantizeCase, dtype: FloatType): Float64Array {
  const { n, k, data, seed } = value;
  return data === "multiples" || data === "ties"
    ? steppedWeights(value, dtype)
    : draw(data, n * k, seed, dtype);
}

/** Significant bits of a number. */
const significant: Readonly<Record<FloatType, number>> = { f32: 24, f16: 11 };

/**
 * Multiples and halves of one number per block, which is the scale: the ends of the range of stored numbers are in
 * the block. It has so few bits that its multiples are exact, half ones too.
 */
function steppedWeights(value: QuantizeCase, dtype: FloatType): Float64Array {
  const { n, k, bits, block, scaleType, zeroPoints, data, seed } = value;
  const next = random(seed);
  const below = (end: number) => Math.floor(next() * end);
  const unitBits = Math.min(significant[dtype] - bits - 1, significant[scaleType]);
  const last = 2 ** bits - 1;
  const weights = new Float64Array(n * k);
  for (let row = 0; row < n; row++)
    for (let begin = 0; begin < k; begin += block) {
      const unit = (2 ** (unitBits - 1) + below(2 ** (unitBits - 1))) * 2 ** (-unitBits - below(6));
      const low = zeroPoints ? -below(2 ** bits) : 1 - 2 ** (bits - 1);
      const high = zeroPoints ? last + low : -low;
      const end = Math.min(begin + block, k);
      for (let p = begin; p < end; p++) {
        const steps = [high, low][p - begin] ?? low + below(high - low + 1);
        const shift = data === "ties" && p > begin + 1 && steps < high ? below(4) : 0;
        // 1: half way; 2 and 3: the number before it, and the one after it.
        const half = unit * (steps + (shift === 0 ? 0 : 0.5));
        const nudge = [0, 0, -0.6, 0.6][shift]! * 2 ** (1 - significant[dtype]);
        weights[row * k + p] = roundTo(dtype, half + Math.abs(half) * nudge);
      }
    }
  return weights;
}

/** Runs a case. Without zero points, those of the result are the middle. */
export async function run(
  { backend }: Pick<LawContext, "backend">,
  dtype: FloatType,
  value: QuantizeCase,
  weights: Float64Array,
): Promise<Quantized> {
  const { n, k, bits, block, scaleType, zeroPoints, placement } = value;
  const blocks = Math.ceil(k / block);
  const counts = {
    b: (n * blocks * block * bits) / 8,
    scales: n * blocks,
    ...(zeroPoints ? { zeroPoints: n * blocks } : {}),
  };
  const rest = {
    ...{ n, k },
    ...(bits === 4 ? {} : { bits }),
    ...(block === 32 ? {} : { block }),
    ...(scaleType === "f32" ? {} : { scaleType }),
    ...given(dtype),
  };
  const outputs = Object.entries(counts);
  const got = await executeAll<string>({
    ...{ backend, dtype, placement, dtypes: { b: "u8", scales: scaleType, zeroPoints: "u8" } },
    operands: {
      input: weights,
      ...Object.fromEntries(outputs.map(([name, count]) => [name, new Float64Array(count).fill(Number.NaN)])),
    },
    written: Object.fromEntries(
      outputs.map(([name, count]) => [name, Array.from({ length: count }, (_, i) => i)]),
    ),
    call: (slices) => backend.quantize({ ...rest, ...(slices as { input: never; b: never; scales: never }) }),
  });
  return {
    b: got.b!,
    scales: got.scales!,
    zeroPoints: got.zeroPoints ?? new Float64Array(n * blocks).fill(2 ** (bits - 1)),
  };
}

/** For `shapeAxes`. */
export function extentsOf({ n, k }: QuantizeCase): readonly number[] {
  return [k, n];
}

/** Checks that results are the same numbers; NaN is NaN. */
export function measureSame(
  context: LawContext,
  value: QuantizeCase,
  got: Quantized,
  expected: Quantized,
): void {
  // No number of the results is negative.
  const comparable = (numbers: Float64Array) => numbers.map((x) => (Number.isNaN(x) ? -1 : x));
  for (const name of ["scales", "zeroPoints", "b"] as const) {
    const values = [...comparable(expected[name])];
    const places = values.map((_, i) => i);
    const all = { places, values, magnitudes: values };
    measure(context, extentsOf(value), comparable(got[name]), all, () => 0);
  }
}

/** Checks a case against the formula, on weights of its own or others. */
export async function check(
  context: LawContext,
  dtype: FloatType,
  value: QuantizeCase,
  weights: Float64Array = weightsOf(value, dtype),
): Promise<void> {
  const expected = quantize(shapeOf(value), weights, value.zeroPoints);
  measureSame(context, value, await run(context, dtype, value, weights), expected);
}

/** The largest number of a type. */
export function largestOf(dtype: FloatType): number {
  return floatFormats[dtype].largest;
}
