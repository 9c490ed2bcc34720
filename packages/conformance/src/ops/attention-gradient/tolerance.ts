import type { FloatType, Numerics } from "@backplane/core";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";
import type { AttentionRow } from "../attention/formula.js";

/*
 * A running analysis, to first order in each step (N. Higham, Accuracy and Stability, chapter 3). The inputs are exact, among
 * them logSumExp and out: how these were computed does not matter.
 *
 * - A score is off by gamma_r (|scale| sum |q||k| + |mask|) with its r roundings, L by 2 units from the change of the base, and
 *   x = score - L by another unit of itself. P = e^x follows these, and its exponential adds 3 + 2 |x| units.
 * - dP - D is a sum of 2 headSize products, in two parts: gamma_headSize, and 8 roundings for parts and the difference.
 * - S = P (dP - D) has the errors of its factors, and a rounding.
 * - Gradients are sums over keys or queries of terms with such errors: gamma_n of the magnitudes, and 8 roundings for parts of
 *   sums, the scale and the last step.
 */

/** Of a sum of n products: relative to the sum of their magnitudes. */
export function sumError(n: number): number {
  return gamma(n + 8);
}

/** How far e^x may be off for the n-th key of a row; what is below the smallest normal number may vanish. */
export function errorOfProbability(row: AttentionRow, n: number, x: number, logSumExp: number): number {
  const p = Math.exp(x);
  const ofX = gamma(row.roundings) * row.magnitudes[n]! + epsilon * (Math.abs(x) + 2 * Math.abs(logSumExp));
  const exponential = (3 + 2 * Math.abs(x)) * epsilon * p;
  return Math.exp(x + ofX) - p + exponential + 2 ** -126;
}

/** For the errors that the formula gives as magnitudes. */
export function gradientTolerance(dtype: FloatType, numerics: Numerics): Tolerance {
  return (value, magnitude) => magnitude + underflow(3, numerics) + storage(dtype, value, numerics);
}
