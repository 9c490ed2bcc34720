import type { FloatType, Numerics, ReduceKind } from "@backplane/core";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";

/** A reduction over n elements: max and min pick one of them; the others round n - 1 times. */
export function reduction(kind: ReduceKind, n: number, dtype: FloatType, numerics: Numerics): Tolerance {
  if (kind === "max" || kind === "min") return () => 0;
  if (n === 1) return () => 0;
  if (kind === "logSumExp") return logSumExp(n, dtype, numerics);
  const small = underflow(n, numerics);
  const roundings = gamma(n - 1);
  // The division, or the multiplication by a rounded 1 / n.
  const scale = kind === "mean" ? (roundings + 2.5 * epsilon) / n : roundings;
  return (value, magnitude) => scale * magnitude + small + storage(dtype, value, numerics);
}

/**
 * m + ln(sum of e^(x - m)). An error relative to the sum is one of the result. The exponential has 3 + 2 |x - m| units and
 * its argument one rounding, and both are met with the weight e^x; n of them may be multiplied by another one when a
 * larger m is found, and summed. The logarithm has 3 units, or 2^-21 below 2, and the last sum one.
 */
function logSumExp(n: number, dtype: FloatType, numerics: Numerics): Tolerance {
  const sums = 3 * epsilon + gamma(5 * n);
  const logarithm = 2 ** -21 + 3 * epsilon * Math.log(n);
  const small = underflow(n, numerics);
  return (value, magnitude) =>
    sums +
    logarithm +
    3 * epsilon * magnitude +
    epsilon * Math.abs(value) +
    small +
    storage(dtype, value, numerics);
}

/**
 * A long sum that does not lose the small terms: 8 sqrt(n) half units of sum |x|. One running sum of equal
 * numbers in f32 exceeds it more and more from n = 10^5 on (4 million times 0.1 is 4% off); a few dozen
 * partial sums, or a tree, keep it easily.
 */
export function longSum(kind: ReduceKind, n: number): Tolerance {
  const scale = (8 * Math.sqrt(n) * (epsilon / 2)) / (kind === "mean" ? n : 1);
  return (_value, magnitude) => scale * magnitude;
}
