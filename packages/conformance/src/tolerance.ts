import {
  type Activation,
  type ArithmeticKind,
  type FloatType,
  float32ToBits,
  type Numerics,
  type ReduceKind,
  type UnaryKind,
} from "@backplane/core";
import type { AttentionRow } from "./reference/attention.js";
import { unaryFunctions } from "./reference/elementwise.js";

/*
 * How far a result may lie from the exact one. Every check reads !(error <= tolerance), so that a NaN fails.
 * Unless stated otherwise, the accuracies are those that WGSL grants its implementations (W3C, WebGPU Shading
 * Language, "Floating Point Accuracy"), carried through the formula of the operation.
 */

/** Distance between neighbouring f32 at 1. Half of it would not do, because WGSL does not fix a rounding mode. */
export const epsilon: number = 2 ** -23;

/** Error of one result when it is rounded to f16: a unit in the last place, or of the subnormals. */
function storage(dtype: FloatType, value: number, numerics: Numerics): number {
  if (dtype === "f32") return numerics.subnormals === "kept" ? 0 : flushed(value, 2 ** -126);
  const lost = numerics.subnormals === "kept" ? 0 : flushed(value, 2 ** -14);
  return Math.max(2 ** -10 * Math.abs(value) + 2 ** -24, lost);
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
function underflow(n: number, numerics: Numerics): number {
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
  if (dtype === "f32") return () => 0;
  return (value) => (Math.abs(value) <= 2 ** 11 ? 0 : 2 ** -10 * Math.abs(value));
}

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

/** Returns one unit in the last place of an f32 result. */
export function ulp(value: number): number {
  // The exponent field; subnormal numbers have the spacing of the smallest normal ones.
  const exponent = (float32ToBits(Math.abs(value)) >>> 23) & 0xff;
  return 2 ** (Math.max(exponent, 1) - 150);
}

/** Returns the allowed error of f(x) = y in f32. */
type UnaryError = (x: number, y: number) => number;

const noError: UnaryError = () => 0;

/** 1e-5 as WGSL has it, but relative below 1/4: sinh / cosh from exponentials loses all digits there. */
const tanhError = (x: number) => 1e-5 * Math.min(1, 4 * Math.abs(x));

/**
 * Rational approximations are accurate to 1.5e-7 (Abramowitz and Stegun 7.1.26) with their rounding; relative
 * below 1/4.
 */
const erfError = (x: number) => 2 ** -20 * Math.min(1, 4 * Math.abs(x));

/** 1 / (1 + e^-x): the exponential enters with weight 1 - y; one addition, one division. */
const sigmoidError: UnaryError = (x, y) => y * ((1 - y) * (3 + 2 * Math.abs(x)) + 3.5) * epsilon + 2 ** -126;

const unaryErrors: Readonly<Record<UnaryKind, UnaryError>> = {
  relu: noError,
  abs: noError,
  neg: noError,
  floor: noError,
  ceil: noError,
  round: noError,
  sign: noError,
  // Inherited from 1 / inverseSqrt(x): 2 units and a division of 2.5.
  sqrt: (_x, y) => 4.5 * epsilon * y,
  rsqrt: (_x, y) => 2 * ulp(y),
  reciprocal: (_x, y) => 2.5 * ulp(y),
  exp: (x, y) => (3 + 2 * Math.abs(x)) * ulp(y),
  log: (x, y) => (x >= 0.5 && x <= 2 ? 2 ** -21 : 3 * ulp(y)),
  sin: () => 2 ** -11,
  cos: () => 2 ** -11,
  tanh: tanhError,
  sigmoid: sigmoidError,
  silu: (x, y) => Math.abs(x) * sigmoidError(x, unaryFunctions.sigmoid(x)) + epsilon * Math.abs(y),
  // max(x, 0) + log(1 + t), t = e^-|x|. The logarithm is granted 2^-21, relative for small t: log(1 + t)
  // taken literally loses all digits there.
  softplus(x, y) {
    const t = Math.exp(-Math.abs(x));
    const logarithm = 2 ** -21 * Math.min(1, 4 * t) + t * (3 + 2 * Math.abs(x)) * epsilon;
    return logarithm + 2 * epsilon * y + 2 ** -126;
  },
  erf: erfError,
  gelu: (x, y) =>
    (Math.abs(x) / 2) * (erfError(x / Math.SQRT2) + epsilon) + 2 * epsilon * Math.abs(y) + 2 ** -126,
  // The argument u of the hyperbolic tangent has 5 roundings, damped by its slope.
  geluTanh(x, y) {
    const u = Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
    const slope = 1 - Math.tanh(u) ** 2;
    const inner = tanhError(u) + slope * Math.abs(u) * 5 * epsilon + epsilon;
    return (Math.abs(x) / 2) * inner + 2 * epsilon * Math.abs(y) + 2 ** -126;
  },
};

export function unaryTolerance(
  kind: UnaryKind,
  x: number,
  y: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  const error = unaryErrors[kind];
  // The results of these are numbers that f16 holds if it holds x.
  if (error === noError) return 0;
  const isRounded = numerics.rounding === "nearest-even" && kind === "sqrt";
  // An intermediate result below the smallest normal number may vanish.
  return (isRounded ? ulp(y) / 2 : error(x, y) + underflow(1, numerics)) + storage(dtype, y, numerics);
}

/**
 * The largest slopes, rounded up: of gelu at x = sqrt(2), (1 + erf(1)) / 2 + e^-1 / sqrt(pi) = 1.1289; of
 * geluTanh 1.1290 at 1.42; of silu 1.0998 at 2.40.
 */
const steepest: Readonly<Record<SmoothActivation, number>> = { gelu: 1.13, geluTanh: 1.13, silu: 1.1 };

/** relu adds no error and enlarges none. */
export type SmoothActivation = Exclude<Activation, "relu">;

/**
 * Tolerance of an activation of a sum x that is off by `error` in f32: that error times the slope, the
 * activation's own error, and one rounding to the element type.
 */
export function activationTolerance(
  activation: SmoothActivation,
  x: number,
  error: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  const y = unaryFunctions[activation](x);
  const own = unaryErrors[activation](x, y) + underflow(1, numerics);
  return steepest[activation] * error + own + storage(dtype, y, numerics);
}

const binaryErrors: Readonly<Record<ArithmeticKind, (a: number, b: number, y: number) => number>> = {
  add: (_a, _b, y) => ulp(y),
  sub: (_a, _b, y) => ulp(y),
  mul: (_a, _b, y) => ulp(y),
  div: (_a, _b, y) => 2.5 * ulp(y),
  max: () => 0,
  min: () => 0,
  // 2^t with t = b log2 |a|: log2 is off by 2^-21 on [1/2, 2] and 3 units outside, the product by one,
  // 2^t by 3 + 2|t|.
  pow(a, b, y) {
    const base = Math.abs(a);
    if (base === 0 || b === 0) return 0;
    const logarithm = Math.log2(base);
    const t = b * logarithm;
    const logarithmError = base >= 0.5 && base <= 2 ? 2 ** -21 : 3 * ulp(logarithm);
    const exponentError = Math.abs(b) * logarithmError + epsilon * Math.abs(t);
    return Math.abs(y) * (Math.expm1(Math.LN2 * exponentError) + (3 + 2 * Math.abs(t)) * epsilon);
  },
};

export function binaryTolerance(
  kind: ArithmeticKind,
  a: number,
  b: number,
  y: number,
  dtype: FloatType,
  numerics: Numerics,
): number {
  if (kind === "max" || kind === "min") return 0;
  // A power takes several steps, the last of which may underflow.
  const small = kind === "pow" ? underflow(1, numerics) : 0;
  const isRounded = numerics.rounding === "nearest-even" && kind !== "pow";
  return (isRounded ? ulp(y) / 2 : binaryErrors[kind](a, b, y)) + small + storage(dtype, y, numerics);
}
