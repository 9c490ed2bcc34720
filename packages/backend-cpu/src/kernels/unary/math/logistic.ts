import { type FunctionBuilder, f32x4, f64x2, v128 } from "../../../wasm/index.js";
import type { VectorFunction } from "../../vector/function.js";
import { demote, polynomial, promote, sharedConstants, type Vector, type VectorLocal } from "./emit.js";
import { decay, normalExponential, normalLimit, scaledExponential, unlessLarge } from "./exponential.js";
import { logarithm } from "./logarithm.js";

/** Functions made of e^x whose both ends stay accurate: e^-|x| cannot overflow. */

/** 1 / (1 + e^-x), as e^x / (1 + e^x) for negative x. */
export function sigmoid(f: FunctionBuilder): VectorFunction {
  const { zero, one } = sharedConstants(f);
  const e = decay(f);
  return (argument) => {
    const x = f.let(argument);
    const small = f.let(e(x));
    const numerator = f.choose(small, one, f32x4.lt(x, zero));
    return f.let(f32x4.div(numerator, f32x4.add(one, small)));
  };
}

/**
 * (tanh(x) / x - 1) / x^2 as a polynomial in x^2 on |x| <= 5/8, minimax for the relative error of
 * tanh (2^-32.4), found with Remez' algorithm.
 */
const tanhCoefficients = [
  -0.3333333134651184, 0.13333220779895782, -0.05394817888736725, 0.021706894040107727, -0.008190013468265533,
  0.002152683911845088,
];

/** x + x^3 p(x^2) near 0, where 1 - 2 / (e^2x + 1) would cancel. */
export function tanh(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  const two = f.let(f32x4.const(2));
  const border = f.let(f32x4.const(0.625));
  // Beyond this tanh rounds to 1.
  const limit = f.let(f32x4.const(16));
  const p = polynomial(f, tanhCoefficients);
  const exp = normalExponential(f);
  return (argument) => {
    const x = f.let(argument);
    const magnitude = f.let(f32x4.abs(x));
    const square = f.let(f32x4.mul(x, x));
    const near = f.multiplyAdd(magnitude, f32x4.mul(square, p(square)), magnitude);
    const t = f.let(f32x4.pmin(magnitude, limit));
    const far = f32x4.sub(one, f32x4.div(two, f32x4.add(exp(f32x4.add(t, t)), one)));
    const result = f.choose(near, far, f32x4.lt(magnitude, border));
    return f.let(v128.or(result, v128.and(x, sign)));
  };
}

/**
 * x / (1 + e^-(u + correction)) for a u with the sign of x. For negative u this is
 * x e^u / (1 + e^u), with the product formed before e^u may become subnormal.
 */
function weightedSigmoid(
  f: FunctionBuilder,
): (x: VectorLocal, u: VectorLocal, correction?: Vector) => VectorLocal {
  const { zero, one, sign } = sharedConstants(f);
  // Where e^u has long become 0 a large x must not bring it back.
  const lowest = f.let(f32x4.const(-128));
  const limit = f.let(f32x4.const(normalLimit));
  const normal = normalExponential(f);
  const scaled = scaledExponential(f);
  return (x, u, correction) => {
    const negative = f.let(f32x4.lt(u, zero));
    const turned = correction && f.let(v128.xor(correction, v128.andnot(sign, negative)));
    const withoutTails = (): Vector => {
      const e = normal(v128.or(u, sign), turned);
      return f32x4.div(f.choose(f32x4.mul(x, e), x, negative), f32x4.add(one, e));
    };
    const withTails = (): Vector => {
      const { mantissa, scale } = scaled(v128.or(u, sign), turned);
      const denominator = f.let(f32x4.add(one, f32x4.mul(mantissa, scale)));
      const limited = f32x4.pmax(x, lowest);
      const below = f32x4.mul(f32x4.div(f32x4.mul(limited, mantissa), denominator), scale);
      // -Infinity times a zero is NaN; for finite x this adds a zero of the same sign.
      const kept = f32x4.add(below, f32x4.mul(x, zero));
      return f.choose(kept, f32x4.div(x, denominator), negative);
    };
    return unlessLarge(f, f32x4.abs(u), limit, withoutTails, withTails);
  };
}

/** x sigmoid(x); NaN for -Infinity, as the formula says. */
export function silu(f: FunctionBuilder): VectorFunction {
  const weighted = weightedSigmoid(f);
  return (argument) => {
    const x = f.let(argument);
    return weighted(x, x);
  };
}

const tanhSlope = 2 * Math.sqrt(2 / Math.PI);
const tanhCubic = tanhSlope * 0.044715;

/**
 * x / 2 (1 + tanh(u / 2)) = x sigmoid(u) with u = 2 sqrt(2 / pi) (x + 0.044715 x^3). u reaches 170,
 * where its rounding to f32 would already show in e^u, so it is computed in f64 and kept in two parts.
 */
export function geluTanh(f: FunctionBuilder): VectorFunction {
  const weighted = weightedSigmoid(f);
  const limit = f.let(f32x4.const(64));
  const minusLimit = f.let(f32x4.const(-64));
  const slope = f.let(f64x2.const(tanhSlope));
  const cubic = f.let(f64x2.const(tanhCubic));
  return (argument) => {
    const x = f.let(argument);
    const limited = f.let(f32x4.pmin(f32x4.pmax(x, minusLimit), limit));
    const exact = promote(f, limited).map((w) =>
      f.let(f64x2.mul(w, f64x2.add(slope, f64x2.mul(cubic, f64x2.mul(w, w))))),
    ) as [VectorLocal, VectorLocal];
    const high = f.let(demote(...exact));
    const [low, lower] = promote(f, high);
    const correction = demote(f64x2.sub(exact[0], low), f64x2.sub(exact[1], lower));
    return weighted(x, high, correction);
  };
}

/**
 * max(x, 0) + ln(1 + e) with e = e^-|x|. The sum 1 + e is rounded; the logarithm is corrected by
 * what that lost, divided by the sum.
 */
export function softplus(f: FunctionBuilder): VectorFunction {
  const { zero, one } = sharedConstants(f);
  const e = decay(f);
  const log = logarithm(f);
  return (argument) => {
    const x = f.let(argument);
    const small = f.let(e(x));
    const sum = f.let(f32x4.add(one, small));
    const lost = f32x4.sub(small, f32x4.sub(sum, one));
    const logarithmOfSum = f32x4.add(log(sum), f32x4.div(lost, sum));
    return f.let(f32x4.add(f32x4.max(x, zero), logarithmOfSum));
  };
}
