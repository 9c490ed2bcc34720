import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import {
  normalExponential,
  polynomial,
  type ScaledExponential,
  scaledExponential,
  sharedConstants,
  splitExponential,
  unlessLarge,
  type Vector,
  type VectorLocal,
} from "../math/index.js";

/**
 * e^(x^2 / 2) times the upper tail of the normal distribution, 1 / sqrt(2 pi) * integral from x to Infinity
 * of e^(-t^2 / 2), for x in [0, 15], as a quotient of two polynomials, near-minimax for the relative error
 * (2^-26.3): least squares of numerator - tail * denominator, reweighted by Lawson's method. The coefficients
 * were rounded to f32 one by one and the rest refitted, in the order that gave the best result. All are
 * positive, so nothing cancels.
 */
const tailNumerator = [
  48.033172607421875, 42.200016021728516, 17.67284393310547, 3.9271209239959717, 0.3989465534687042,
];
const tailDenominator = [
  96.06634521484375, 161.0499267578125, 115.811279296875, 45.28541946411133, 9.844419479370117, 1,
];

function scaledTail(f: FunctionBuilder): (x: VectorLocal) => VectorLocal {
  const numerator = polynomial(f, tailNumerator);
  const denominator = polynomial(f, tailDenominator);
  return (x) => f.let(f32x4.div(numerator(x), denominator(x)));
}

/**
 * x^2 as a number and its excess over x^2, so that its exponential is accurate to the end of the tail. The number
 * is the square of the leading 12 significant bits of x, which is exact. A relaxed multiply-add would give the
 * excess of x^2, rounded, in one instruction, but only if it is fused, which engines need not do.
 */
function exactSquare(f: FunctionBuilder): (x: VectorLocal) => [Vector, Vector] {
  const leading = f.let(i32x4.const(-4096));
  return (x) => {
    const z = f.let(v128.and(x, leading));
    return [f32x4.mul(z, z), f32x4.mul(f32x4.sub(z, x), f32x4.add(x, z))];
  };
}

/**
 * x / 2 (1 + erf(x / sqrt(2))) = max(x, 0) - |x| times the upper tail at |x|: for negative x that is x
 * times the lower tail. NaN for -Infinity, as the formula says.
 */
export function gelu(f: FunctionBuilder): VectorFunction {
  const { zero, sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(15));
  // From here to there the upper tail is far from subnormal.
  const normalTail = f.let(f32x4.const(12));
  const square = exactSquare(f);
  const normal = splitExponential(f, -0.5);
  const scaled = scaledExponential(f, -0.5);
  const tail = scaledTail(f);
  return (argument) => {
    const x = f.let(argument);
    const magnitude = f.let(f32x4.abs(x));
    // -0 for negative x, and for -0 itself.
    const positivePart = f.let(f32x4.pmax(x, sign));
    // Multiply first the factors that do not need the mantissa, which takes longest; scales are exact.
    const lessTail = (start: Vector, t: VectorLocal, { mantissa, scale }: ScaledExponential): Vector =>
      f.multiplySubtract(mantissa, f32x4.mul(f32x4.mul(t, tail(t)), scale), start);
    // The square of the magnitude, which the tail needs as well, is computed once.
    const withoutTails = (): Vector => lessTail(positivePart, magnitude, normal(...square(magnitude)));
    const withTails = (): Vector => {
      const t = f.let(f32x4.pmin(magnitude, limit));
      // -Infinity times a zero is NaN; for other numbers this adds a zero of the same sign.
      const start = f32x4.add(positivePart, f32x4.mul(f32x4.pmin(x, zero), zero));
      return lessTail(start, t, scaled(...square(t)));
    };
    return unlessLarge(f, magnitude, normalTail, withoutTails, withTails);
  };
}

/**
 * erf(x) / x - 1 as a polynomial in x^2 on |x| <= 7/8, near-minimax for the relative error of erf
 * (2^-30.1), fitted as those of the logarithm.
 */
const erfCoefficients = [
  0.12837916612625122, -0.3761262893676758, 0.11283622682094574, -0.026855358853936195, 0.005190895404666662,
  -0.000802536029368639, 7.860294863348827e-5,
];

/** x + x p(x^2) near 0; elsewhere 1 less twice the upper tail at sqrt(2) |x|. */
export function erf(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  // Beyond this erf rounds to 1.
  const limit = f.let(f32x4.const(4.5));
  const border = f.let(f32x4.const(0.875));
  const sqrt2 = f.let(f32x4.const(Math.SQRT2));
  const leading = f.let(i32x4.const(-4096));
  const near = polynomial(f, erfCoefficients);
  const exp = normalExponential(f);
  const tail = scaledTail(f);
  return (argument) => {
    const x = f.let(argument);
    const square = f.let(f32x4.mul(x, x));
    const small = f.multiplyAdd(x, near(square), x);
    const magnitude = f.let(f32x4.abs(x));
    const t = f.let(f32x4.pmin(magnitude, limit));
    const z = f.let(v128.and(t, leading));
    const excess = f32x4.mul(f32x4.sub(t, z), f32x4.add(t, z));
    const e = exp(v128.xor(f32x4.mul(z, z), sign), excess);
    const upper = f.let(f32x4.mul(e, tail(f.let(f32x4.mul(t, sqrt2)))));
    const large = v128.or(f32x4.sub(one, f32x4.add(upper, upper)), v128.and(x, sign));
    return f.let(f.choose(small, large, f32x4.lt(magnitude, border)));
  };
}
