import type { FloatType, Numerics, ReduceKind } from "@backplane/core";
import { epsilon, gamma, storage, type Tolerance, underflow } from "../../tolerance.js";

/** A reduction over n elements: max and min pick one of them; the others round n - 1 times. */
export function reduction(kind: ReduceKind, n: number, dtype: FloatType, numerics: Numerics): Tolerance {
  if (kind === "max" || kind === "min") return () => 0;
  if (n === 1) return () => 0;
  const small = underflow(n, numerics);
  const roundings = gamma(n - 1);
  // The division, or the multiplication by a rounded 1 / n.
  const scale = kind === "mean" ? (roundings + 2.5 * epsilon) / n : roundings;
  return (value, magnitude) => scale * magnitude + small + storage(dtype, value, numerics);
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
