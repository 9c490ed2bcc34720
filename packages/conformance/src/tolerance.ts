import type { FloatType, Numerics } from "@backplane/core";
import { floatFormats, storages } from "./elements.js";
import { epsilon, ulp } from "./kinds/units.js";

/*
 * How far a result may lie from the exact one. Every check reads !(error <= tolerance), so that a NaN fails.
 * Unless stated otherwise, the accuracies are those that WGSL grants its implementations (W3C, WebGPU Shading
 * Language, "Floating Point Accuracy"), carried through the formula of the operation.
 */

export { epsilon, ulp };

/** Error of one result in f32 when it is stored: a unit in the last place, or of the subnormals, if the type has fewer bits. */
export function storage(dtype: FloatType, value: number, numerics: Numerics): number {
  const { bitsLost, smallestSubnormal } = floatFormats[dtype];
  const lost = numerics.subnormals === "kept" ? 0 : flushed(value, storages[dtype].smallestNormal);
  if (bitsLost === 0) return lost;
  return Math.max(2 ** (bitsLost - 23) * Math.abs(value) + smallestSubnormal, lost);
}

/** A backend that declares it may store a result below the smallest normal number as zero. */
function flushed(value: number, smallestNormal: number): number {
  return Math.abs(value) < smallestNormal ? Math.abs(value) : 0;
}

/** gamma_n = n eps / (1 - n eps): n roundings in a row (N. Higham, Accuracy and Stability, lemma 3.1). */
export function gamma(n: number): number {
  return (n * epsilon) / (1 - n * epsilon);
}

/**
 * Error of n roundings below the smallest normal number, beyond their share of the value. Each loses a unit
 * of the subnormal numbers, which does not shrink with them, or all of the value if subnormals are flushed.
 */
export function underflow(n: number, numerics: Numerics): number {
  return n * (numerics.subnormals === "kept" ? 2 ** -149 : 2 ** -126);
}

/** Returns the allowed error of one element, given its exact value and the magnitude of its terms. */
export type Tolerance = (value: number, magnitude: number) => number;

/**
 * A sum of k products, in any order and with or without fused multiply-adds, with n - k further roundings:
 * gamma_n times the sum of the magnitudes. For gemm n is k + 3 (alpha, beta, their sum); for conv2d it is
 * kernelHeight * kernelWidth * inChannels / groups + 1.
 */
export function productSum(n: number, dtype: FloatType, numerics: Numerics, alpha = 1): Tolerance {
  const small = underflow(n, numerics) * Math.max(1, Math.abs(alpha));
  return (value, magnitude) => gamma(n) * magnitude + small + storage(dtype, value, numerics);
}

/**
 * The same if every step rounds to nearest. Rounding errors then have no preferred sign and grow with the
 * square root of their number (Higham, section 2.8). 8 sqrt(k) half units is far out in that distribution,
 * and below the certain bound from k = 60 or so.
 */
export function tightProductSum(k: number, dtype: FloatType, numerics: Numerics): Tolerance {
  return (value, magnitude) =>
    8 * Math.sqrt(Math.max(k, 1)) * (epsilon / 2) * magnitude + storage(dtype, value, numerics);
}

/**
 * Integers whose sums stay below 2^24: no error at all. A sum beyond what f16 holds exactly (2^11) may be
 * rounded once.
 */
export function exact(dtype: FloatType): Tolerance {
  const { bitsLost, exactUpTo } = floatFormats[dtype];
  if (bitsLost === 0) return () => 0;
  return (value) => (Math.abs(value) <= exactUpTo ? 0 : 2 ** (bitsLost - 23) * Math.abs(value));
}
