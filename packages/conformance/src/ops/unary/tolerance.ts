import type { FloatType, Numerics, UnaryKind } from "@backplane/core";
import { unaryFunctions } from "../../functions.js";
import { epsilon, storage, ulp, underflow } from "../../tolerance.js";

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

/** The allowed error of each function in f32. */
export const unaryErrors: Readonly<Record<UnaryKind, UnaryError>> = {
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
  // e^x with its error and one difference; relative below 1/4: e^x - 1 taken literally loses all digits there.
  expm1: (x, y) => (3 + 2 * Math.abs(x)) * epsilon * Math.exp(x) * Math.min(1, 4 * Math.abs(x)) + 2 * ulp(y),
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
