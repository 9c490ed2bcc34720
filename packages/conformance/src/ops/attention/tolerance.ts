import type { FloatType, Numerics } from "@backplane/core";
import { epsilon, gamma, storage, type Tolerance } from "../../tolerance.js";
import type { AttentionRow } from "./formula.js";

/**
 * Returns, for each key, the factor of P |v| in the error of attention. With scores s, m the largest of them
 * and x = s - m, each score is off by at most E = max over the keys of gamma_(headSize + 2) |scale| sum
 * |q||k| + eps |x|, which changes P by a factor e^(2E) at most; the exponential adds 3 + 2|x| units;
 * rescaling, division and multiplication add 4; the two sums over the keys add gamma_keyLength each; and the
 * exponentials' errors enter the denominator in the mean.
 */
export function attentionWeights(row: AttentionRow, headSize: number): Float64Array {
  const { count, distances, magnitudes, probabilities } = row;
  let worst = 0;
  let mean = 0;
  for (let j = 0; j < count; j++) {
    const x = Math.abs(distances[j]!);
    worst = Math.max(worst, gamma(headSize + 2) * magnitudes[j]! + epsilon * x);
    mean += probabilities[j]! * (3 + 2 * x) * epsilon;
  }
  const common = Math.expm1(2 * worst) + 4 * epsilon + 2 * gamma(count) + mean;
  return distances.map((x) => common + (3 + 2 * Math.abs(x)) * epsilon);
}

/** For the magnitude that `attentionWeights` leads to. */
export function attentionTolerance(keyLength: number, dtype: FloatType, numerics: Numerics): Tolerance {
  // Probabilities below the smallest normal number may vanish; values are at most a few units large.
  const small = 8 * keyLength * 2 ** -126;
  return (value, magnitude) => magnitude + small + storage(dtype, value, numerics);
}
