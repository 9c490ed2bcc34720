import type { QuantizeProblem } from "@backplane/core";
import { type ReferenceMemory, storages } from "../../elements.js";
import type { Evaluate } from "../operation.js";

export type QuantizeShape = Pick<
  QuantizeProblem<unknown>,
  "bits" | "block" | "n" | "k" | "blocks" | "scaleType"
>;

/** The results, each as numbers. */
export interface Quantized {
  readonly b: Float64Array;
  readonly scales: Float64Array;
  readonly zeroPoints: Float64Array;
}

/** The steps of the formula, which mutants replace. */
export interface QuantizeSteps {
  /** The scale of a block, as its type holds it, from the least weight or 0 and the largest or 0. */
  scaleOf(low: number, high: number, shape: QuantizeShape, hasZeroPoints: boolean): number;
  /** The whole number next to weight / scale. */
  round(weight: number, scale: number): number;
  /** The zero point of a block. */
  zeroOf(low: number, scale: number, last: number): number;
}

/**
 * A quotient of two f32 is no closer than 2^-26 to a half that it does not equal (it is the quotient of whole numbers
 * below 2^24, times a power of two), so that its rounding to f64 is of no account.
 */
const round = (weight: number, scale: number): number => Math.floor(weight / scale + 0.5);

/** Quotients are rounded to f64 first, which changes no rounding to f32 or f16: their divisors have at most 8 bits. */
export const exactSteps: QuantizeSteps = {
  scaleOf(low, high, { bits, scaleType }, hasZeroPoints) {
    const { encode, decode } = storages[scaleType];
    const range = hasZeroPoints ? Math.fround(high - low) : Math.max(high, -low);
    const exact = range / (hasZeroPoints ? 2 ** bits - 1 : 2 ** (bits - 1) - 1);
    const scale = Math.fround(decode(encode(exact)));
    return Number.isFinite(scale) ? scale : Number.NaN;
  },
  round,
  zeroOf: (low, scale, last) => Math.min(round(-low, scale), last),
};

/** The operands of quantizedGemm that stand for n rows of k weights. B has what lies past k too. */
export function quantize(
  shape: QuantizeShape,
  weights: Float64Array,
  hasZeroPoints: boolean,
  { scaleOf, round, zeroOf }: QuantizeSteps = exactSteps,
): Quantized {
  const { bits, block, n, k, blocks } = shape;
  const last = 2 ** bits - 1;
  const perByte = 8 / bits;
  const b = new Float64Array((n * blocks * block) / perByte);
  const scales = new Float64Array(n * blocks);
  const zeroPoints = new Float64Array(n * blocks).fill(2 ** (bits - 1));
  for (let row = 0; row < n; row++)
    for (let i = 0; i < blocks; i++) {
      const begin = row * k + i * block;
      const own = weights.subarray(begin, Math.min(begin + block, (row + 1) * k));
      const scale = scaleOf(Math.min(0, ...own), Math.max(0, ...own), shape, hasZeroPoints);
      const place = row * blocks + i;
      scales[place] = scale;
      const isFlat = !(scale > 0);
      if (hasZeroPoints) zeroPoints[place] = isFlat ? 0 : zeroOf(Math.min(0, ...own), scale, last);
      for (let p = 0; p < block; p++) {
        const steps = isFlat || p >= own.length ? 0 : round(own[p]!, scale);
        const q = Math.min(Math.max(steps + zeroPoints[place]!, 0), last);
        const at = place * block + p;
        b[Math.floor(at / perByte)]! += q * (at % perByte === 0 ? 1 : 16);
      }
    }
  return { b, scales, zeroPoints };
}

/** Everything is exact. */
export const evaluate: Evaluate<QuantizeProblem<ReferenceMemory>> = (problem, memory) => {
  const { dtype, scaleType, zeroPoints } = problem;
  const results = quantize(problem, memory.read(problem.input, dtype), zeroPoints !== undefined);
  const outputs = [
    [problem.b, "u8", results.b],
    [problem.scales, scaleType, results.scales],
    ...(zeroPoints === undefined ? [] : [[zeroPoints, "u8", results.zeroPoints] as const]),
  ] as const;
  for (const [region, type, values] of outputs) {
    const write = memory.write(region, type);
    for (const [i, value] of values.entries()) write(i, value, 0);
  }
};
