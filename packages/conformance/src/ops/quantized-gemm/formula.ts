import type { FloatType, Numerics, QuantizedGemmProblem } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { storages } from "../../elements.js";
import { gamma, productSum, type Tolerance } from "../../tolerance.js";
import { finishing } from "../epilogue.js";
import type { Emit, Evaluate } from "../operation.js";

export type QuantizedShape = Pick<
  QuantizedGemmProblem<unknown>,
  "dtype" | "bits" | "block" | "m" | "n" | "k" | "blocks" | "beta" | "mayRoundA"
>;

/** B, its scales and zero points as stored, each as numbers. */
export interface StoredWeights {
  readonly b: Float64Array;
  readonly scales: Float64Array;
  readonly zeroPoints: Float64Array | undefined;
}

/** n rows of k weights: exact, for a scale in f32 times a whole number below 2^9 is exact in f64. */
export function dequantized(
  { bits, block, n, k, blocks }: Pick<QuantizedShape, "bits" | "block" | "n" | "k" | "blocks">,
  { b, scales, zeroPoints }: StoredWeights,
): Float64Array {
  const weights = new Float64Array(n * k);
  const perByte = 8 / bits;
  for (let row = 0; row < n; row++)
    for (let p = 0; p < k; p++) {
      const place = row * blocks + Math.floor(p / block);
      const byte = b[Math.floor((row * blocks * block + p) / perByte)]!;
      const q = perByte === 1 ? byte : Math.floor(byte / (p % 2 === 0 ? 1 : 16)) % 16;
      weights[row * k + p] = scales[place]! * (q - (zeroPoints?.[place] ?? 2 ** (bits - 1)));
    }
  return weights;
}

/**
 * C = A W^T + beta C + bias. The magnitude of an element is |A| |W|^T + |beta| |C| + |bias|, with W as `weighed` has it; where A may be
 * rounded, and so much more that the bound of errors grows by what that may do.
 */
export function quantizedGemm(
  { dtype, m, n, k, block, beta, mayRoundA }: QuantizedShape,
  a: Float64Array,
  weights: Float64Array,
  before: Float64Array,
  emit: Emit,
  numerics: Pick<Numerics, "subnormals"> | undefined,
  bias?: Float64Array,
): void {
  const weights2 = weights.map((weight) => weighed(weight, dtype, numerics));
  // The magnitude is multiplied by `errorShare`, and rounding makes A larger, too.
  const perRounding = mayRoundA ? roundingOfA * (1 + 1 / errorShare(k, dtype)) : 0;
  for (let row = 0; row < m; row++) {
    const largest = largestOfBlocks(a.subarray(row * k, (row + 1) * k), block);
    for (let column = 0; column < n; column++) {
      let sum = 0;
      let magnitude = 0;
      for (let p = 0; p < k; p++) {
        const x = a[row * k + p]!;
        sum += x * weights[column * k + p]!;
        const rounding = perRounding * largest[Math.floor(p / block)]!;
        magnitude += (Math.abs(x) + rounding) * weights2[column * k + p]!;
      }
      // C is not read if beta is 0: a NaN there must not show.
      const previous = beta === 0 ? 0 : beta * before[row * n + column]!;
      const offset = bias?.[column] ?? 0;
      emit(row * n + column, sum + previous + offset, magnitude + Math.abs(previous) + Math.abs(offset));
    }
  }
}

/** How far an element of A may be off where it may be rounded, as a share of the largest one of its block. */
const roundingOfA = 2 ** -15;

/** The largest magnitude in each block of a row of A, or 0 if a NaN or an infinity is in it: then nothing is rounded. */
function largestOfBlocks(row: Float64Array, block: number): readonly number[] {
  return Array.from({ length: Math.ceil(row.length / block) }, (_, i) => {
    const largest = row
      .subarray(i * block, (i + 1) * block)
      .reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    return Number.isFinite(largest) ? largest : 0;
  });
}

/**
 * The magnitude of a weight for the error that rounding it to f16 may make, which is 2^-10 of this: of weights below the
 * normal numbers a unit of the subnormal ones, or all of it where they are flushed to zero.
 */
function weighed(
  weight: number,
  dtype: FloatType,
  numerics: Pick<Numerics, "subnormals"> | undefined,
): number {
  const magnitude = Math.abs(weight);
  const { smallestNormal } = storages.f16;
  if (dtype !== "f16" || magnitude === 0 || magnitude >= smallestNormal) return magnitude;
  return numerics?.subnormals === "kept" ? smallestNormal : magnitude * 2 ** 10;
}

/**
 * The bound of a sum of k products (`productSum`), with five more roundings of the weights (in f32), of their sum, of
 * beta C and its sum, and of the bias. For f16 data each weight may have been rounded to f16 before: 2^-10 of the magnitude, as WGSL
 * fixes no rounding mode.
 */
export function boundOf(k: number, data: FloatType, numerics: Numerics): (stored: FloatType) => Tolerance {
  const share = weightRounding[data];
  return (stored) => {
    const sum = productSum(roundingsOf(k), stored, numerics);
    return (value, magnitude) => sum(value, magnitude) * (1 + share) + share * magnitude;
  };
}

const roundingsOf = (k: number): number => k + 5;

/** By how much of itself a weight may be rounded. */
const weightRounding: Readonly<Record<FloatType, number>> = { f32: 0, f16: 2 ** -10 };

/** The share of its magnitude that the bound grants a result. */
function errorShare(k: number, data: FloatType): number {
  const share = weightRounding[data];
  return gamma(roundingsOf(k)) * (1 + share) + share;
}

export const evaluate: Evaluate<QuantizedGemmProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, scaleType, k, beta, bias, activation, zeroPoints } = problem;
  const a = memory.read(problem.a, dtype);
  const weights = dequantized(problem, {
    b: memory.read(problem.b, "u8"),
    scales: memory.read(problem.scales, scaleType),
    zeroPoints: zeroPoints && memory.read(zeroPoints, "u8"),
  });
  const before = beta === 0 ? new Float64Array(0) : memory.read(problem.c, dtype);
  const offset = bias && memory.read(bias, dtype);
  const bound = numerics && boundOf(k, dtype, numerics);
  const emit = finishing(memory.write(problem.c, dtype), activation, dtype, bound, numerics);
  quantizedGemm(problem, a, weights, before, emit, numerics, offset);
};
