import { type FunctionBuilder, f32x4, f64x2, i64x2, v128 } from "../../wasm/index.js";
import {
  demote,
  outsideOfNormal,
  polynomial64,
  promote,
  roundingBias64,
  sharedConstants,
  splitExponent,
  splitNormal,
  unlessAny,
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

/** Lanes 0 and 1, lanes 2 and 3. */
type Halves = readonly [VectorLocal, VectorLocal];

/** In f64, two lanes at a time, within 0.51 ULP: log2 of a number from its parts, and 2^t. */
function halfFunctions(f: FunctionBuilder) {
  const one = f.let(f64x2.const(1));
  // Powers beyond these are 0 and Infinity in f32.
  const lowest = f.let(f64x2.const(-200));
  const highest = f.let(f64x2.const(200));
  const bias = f.let(f64x2.const(roundingBias64));
  const logarithm = polynomial64(f, logarithmCoefficients);
  const exponential = polynomial64(f, powerCoefficients);
  return {
    logarithm: (m: VectorLocal, exponent: VectorLocal): VectorLocal => {
      const s = f.let(f64x2.div(f64x2.sub(m, one), f64x2.add(m, one)));
      return f.let(f.multiplyAdd64(s, logarithm(f.let(f64x2.mul(s, s))), exponent));
    },
    power: (exponent: Vector): Vector => {
      const t = f.let(f64x2.pmin(f64x2.pmax(exponent, lowest), highest));
      const biased = f.let(f64x2.add(t, bias));
      const r = f.let(f64x2.sub(t, f64x2.sub(biased, bias)));
      // Adding to the exponent field multiplies by 2^n; conversion to f32 then rounds once.
      return f.let(i64x2.add(exponential(r), i64x2.shl(biased, 52)));
    },
  };
}

/**
 * a^b = 2^(b log2 |a|), with a sign. The logarithm is multiplied by up to 2^7 / log2|a|, for which f32 is not
 * accurate enough; in f64 the result is within 0.51 ULP. Vectors of positive normal numbers a, the usual ones, need
 * nothing else. Special cases are those of `Math.pow`: a^0 is 1 for every a, and a negative number to a power that is
 * not whole is NaN.
 */
export function power(f: FunctionBuilder): (a: Vector, b: Vector) => Vector {
  const outside = outsideOfNormal(f);
  const splitUsual = splitNormal(f);
  const { logarithm, power } = halfFunctions(f);
  /** |a|^b from the parts of |a|; the logarithms are `adjusted` before they are used. */
  const powers = (
    { fraction, exponent }: ReturnType<typeof splitUsual>,
    b: Halves,
    adjusted = (log2: VectorLocal, _half: 0 | 1): Vector => log2,
  ): Vector => {
    const fractions = promote(f, fraction);
    const exponents = promote(f, exponent);
    const half = (i: 0 | 1): Vector =>
      power(f64x2.mul(b[i], adjusted(logarithm(fractions[i], exponents[i]), i)));
    return demote(half(0), half(1));
  };

  return (base, exponent) => {
    const a = f.let(base);
    const b = f.let(exponent);
    const halves = promote(f, b);
    const withAll = (): Vector => {
      const { zero, half, one, sign } = sharedConstants(f);
      const infinity = f32x4.const(Number.POSITIVE_INFINITY);
      const magnitude = f.let(f32x4.abs(a));
      const magnitudes = promote(f, magnitude);
      const adjusted = (log2: VectorLocal, i: 0 | 1): Vector => {
        const isZero = f64x2.eq(magnitudes[i], f64x2.const(0));
        f.set(log2, f.choose(f64x2.const(Number.NEGATIVE_INFINITY), log2, isZero));
        // Infinity and NaN are their own logarithms.
        const isBelow = f64x2.lt(magnitudes[i], f64x2.const(Number.POSITIVE_INFINITY));
        return f.choose(log2, magnitudes[i], isBelow);
      };
      const result = f.let(powers(splitExponent(f)(magnitude), halves, adjusted));
      const isWhole = f.let(f32x4.eq(f32x4.floor(b), b));
      const halved = f.let(f32x4.mul(b, half));
      const isOdd = v128.andnot(isWhole, f32x4.eq(f32x4.floor(halved), halved));
      f.set(result, v128.xor(result, v128.and(v128.and(a, sign), isOdd)));
      const isNegative = v128.and(f32x4.lt(a, zero), f32x4.lt(magnitude, infinity));
      f.set(result, f.choose(f32x4.const(Number.NaN), result, v128.andnot(isNegative, isWhole)));
      return f.choose(one, result, f32x4.eq(b, zero));
    };
    return unlessAny(f, outside(a), () => powers(splitUsual(a), halves), withAll);
  };
}
