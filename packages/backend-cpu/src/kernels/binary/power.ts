import { type FunctionBuilder, f32x4, f64x2, i64x2, v128 } from "../../wasm/index.js";
import {
  demote,
  polynomial64,
  promote,
  roundingBias64,
  sharedConstants,
  splitExponent,
  type Vector,
  type VectorLocal,
} from "../math/index.js";

/**
 * log2(m) / s with s = (m - 1) / (m + 1), in powers of s^2, for m in [sqrt(1/2), sqrt(2)]: minimax for
 * the relative error (2^-45), found with Remez' algorithm.
 */
const logarithmCoefficients = [
  2.8853900817778495, 0.9617966941142135, 0.5770779421189614, 0.4122092766590375, 0.3199047190525284,
  0.28291392977340174,
];

/** 2^r on |r| <= 1/2, near-minimax for the relative error (2^-40.2). */
const powerCoefficients = [
  0.9999999999997623, 0.6931471805465143, 0.240226506988808, 0.05550410939341379, 0.009618128542781632,
  0.0013333452066663979, 0.00015403851991527384, 1.530973558242927e-5, 1.3175765523658714e-6,
];

/**
 * a^b = 2^(b log2 |a|), with a sign. The logarithm is multiplied by up to 2^7 / log2|a|, for which f32 is not
 * accurate enough; in f64 the result is within 0.51 ULP. Special cases are those of `Math.pow`: a^0 is 1 for
 * every a, and a negative number to a power that is not whole is NaN.
 */
export function power(f: FunctionBuilder): (a: Vector, b: Vector) => Vector {
  const { zero, half, one, sign } = sharedConstants(f);
  const split = splitExponent(f);
  const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
  const nan = f.let(f32x4.const(Number.NaN));
  const one64 = f.let(f64x2.const(1));
  const infinity64 = f.let(f64x2.const(Number.POSITIVE_INFINITY));
  const minusInfinity64 = f.let(f64x2.const(Number.NEGATIVE_INFINITY));
  const zero64 = f.let(f64x2.const(0));
  // Powers beyond these are 0 and Infinity in f32.
  const lowest = f.let(f64x2.const(-200));
  const highest = f.let(f64x2.const(200));
  const bias = f.let(f64x2.const(roundingBias64));
  const logarithm = polynomial64(f, logarithmCoefficients);
  const exponential = polynomial64(f, powerCoefficients);

  const powerOf = (m: VectorLocal, exponent: VectorLocal, base: VectorLocal, b: VectorLocal): Vector => {
    const s = f.let(f64x2.div(f64x2.sub(m, one64), f64x2.add(m, one64)));
    const square = f.let(f64x2.mul(s, s));
    const log2 = f.let(f64x2.add(exponent, f64x2.mul(s, logarithm(square))));
    f.set(log2, f.choose(minusInfinity64, log2, f64x2.eq(base, zero64)));
    // Infinity and NaN are their own logarithms.
    f.set(log2, f.choose(log2, base, f64x2.lt(base, infinity64)));
    const product = f.let(f64x2.mul(b, log2));
    const t = f.let(f64x2.pmin(f64x2.pmax(product, lowest), highest));
    const biased = f.let(f64x2.add(t, bias));
    const r = f.let(f64x2.sub(t, f64x2.sub(biased, bias)));
    // Adding to the exponent field multiplies by 2^n; conversion to f32 then rounds once.
    return f.let(i64x2.add(exponential(r), i64x2.shl(biased, 52)));
  };

  return (base, exponent) => {
    const a = f.let(base);
    const b = f.let(exponent);
    const magnitude = f.let(f32x4.abs(a));
    const parts = split(magnitude);
    const fractions = promote(f, parts.fraction);
    const exponents = promote(f, parts.exponent);
    const magnitudes = promote(f, magnitude);
    const powers = promote(f, b);
    const [low, high] = [0, 1].map((i) =>
      powerOf(fractions[i]!, exponents[i]!, magnitudes[i]!, powers[i]!),
    ) as [Vector, Vector];
    const result = f.let(demote(low, high));
    const isWhole = f.let(f32x4.eq(f32x4.floor(b), b));
    const halved = f.let(f32x4.mul(b, half));
    const isOdd = v128.andnot(isWhole, f32x4.eq(f32x4.floor(halved), halved));
    f.set(result, v128.xor(result, v128.and(v128.and(a, sign), isOdd)));
    const isNegative = v128.and(f32x4.lt(a, zero), f32x4.lt(magnitude, infinity));
    f.set(result, f.choose(nan, result, v128.andnot(isNegative, isWhole)));
    return f.let(f.choose(one, result, f32x4.eq(b, zero)));
  };
}
