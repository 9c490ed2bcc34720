import type { FloatType, Numerics } from "@backplane/core";
import { epsilon, gamma, storage, type Tolerance } from "../../tolerance.js";
import type { AttentionRow } from "./formula.js";

/** e^-150 is below 2^-216. */
const VANISHED = 150;

/**
 * Returns, for each key, the factor of P |v| in the error of attention. With scores s, m the largest of them
 * and x = s - m, each score is off by at most E = max over the keys of gamma_(headSize + 2) (|scale| sum
 * |q||k| + |mask|) + eps |x| (with a mask, gamma_(headSize + 4)), which changes P by a factor e^(2E) at most, unless both
 * are far below the smallest normal number, as with masks that hide keys by large numbers; the exponential adds 3 + 2|x| units;
 * rescaling, division and multiplication add 4; the two sums over the keys add gamma_keyLength each; and the
 * exponentials' errors enter the denominator in the mean.
 */
export function attentionWeights(row: AttentionRow): Float64Array {
  const { keys, roundings, distances, magnitudes, probabilities } = row;
  const count = keys.length;
  let worst = 0;
  let mean = 0;
  for (let j = 0; j < count; j++) {
    const x = Math.abs(distances[j]!);
    const error = gamma(roundings) * magnitudes[j]! + epsilon * x;
    if (x - error < VANISHED) worst = Math.max(worst, error);
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
