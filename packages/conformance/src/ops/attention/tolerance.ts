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
  const { keys, distances } = row;
  const count = keys.length;
  const { worst, mean } = rowErrors(row);
  const common = Math.expm1(2 * worst) + 4 * epsilon + 2 * gamma(count) + mean;
  return distances.map((x) => common + (3 + 2 * Math.abs(x)) * epsilon);
}

/** The largest error of a score that matters, and the relative error that exponentials have in the mean. */
function rowErrors({ keys, roundings, distances, magnitudes, probabilities }: AttentionRow): {
  readonly worst: number;
  readonly mean: number;
} {
  let worst = 0;
  let mean = 0;
  for (let j = 0; j < keys.length; j++) {
    const x = Math.abs(distances[j]!);
    const error = gamma(roundings) * magnitudes[j]! + epsilon * x;
    if (x - error < VANISHED) worst = Math.max(worst, error);
    mean += probabilities[j]! * (3 + 2 * x) * epsilon;
  }
  return { worst, mean };
}

/**
 * The error of a logarithm of a sum of e^score. It moves no more than the scores do. The sum is off by the mean error of
 * the exponentials, and by gamma_n each for additions and for the rescaling of parts. Its logarithm is off by 3 units, or by
 * 2^-21 near 1. A kernel may sum relative to another score than the largest, up to 2^16 times heavier or lighter. Three
 * roundings are left for the change of the base and the last sum.
 */
export function logSumExpError(row: AttentionRow): number {
  const count = row.keys.length;
  if (count === 0) return 0;
  const { worst, mean } = rowErrors(row);
  const ofSum = Math.min(mean + 2 * gamma(count) + 4 * epsilon, 0.5);
  const terms = Math.abs(row.largest) + Math.abs(row.logSumExp) + 16;
  return worst - Math.log1p(-ofSum) + (4 + 3 * terms) * epsilon;
}

/** For the magnitude that `logSumExpError` gives. */
export const logSumExpTolerance: Tolerance = (_value, magnitude) => magnitude;

/** For the magnitude that `attentionWeights` leads to. */
export function attentionTolerance(keyLength: number, dtype: FloatType, numerics: Numerics): Tolerance {
  // Probabilities below the smallest normal number may vanish; values are at most a few units large.
  const small = 8 * keyLength * 2 ** -126;
  return (value, magnitude) => magnitude + small + storage(dtype, value, numerics);
}
