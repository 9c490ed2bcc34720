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
  subnormal,
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
  /** |a|^b from the parts of |a|. */
  const powers = ({ fraction, exponent }: ReturnType<typeof splitUsual>, b: Halves): Vector => {
    const fractions = promote(f, fraction);
    const exponents = promote(f, exponent);
    const half = (i: 0 | 1): Vector => power(f64x2.mul(b[i], logarithm(fractions[i], exponents[i])));
    return demote(half(0), half(1));
  };

  return (base, exponent) => {
    const a = f.let(base);
    const b = f.let(exponent);
    const magnitude = f.let(f32x4.abs(a));
    const halves = promote(f, b);
    const withAll = (result: VectorLocal): Vector => {
      const { zero, half, one, sign } = sharedConstants(f);
      const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
      const choose = (value: Vector, mask: Vector): void => f.set(result, f.choose(value, result, mask));
      const isSubnormal = f.let(subnormal(magnitude));
      f.if(v128.anyTrue(isSubnormal), () => choose(powers(splitExponent(f)(magnitude), halves), isSubnormal));
      // Powers of 0 and Infinity are 0 or Infinity.
      const isZero = f.let(f32x4.eq(magnitude, zero));
      const isInfinite = f32x4.eq(magnitude, infinity);
      choose(v128.and(infinity, v128.xor(f32x4.gt(b, zero), isZero)), v128.or(isZero, isInfinite));
      const isWhole = f.let(f32x4.eq(f32x4.floor(b), b));
      const halved = f.let(f32x4.mul(b, half));
      const isOdd = v128.andnot(isWhole, f32x4.eq(f32x4.floor(halved), halved));
      f.set(result, v128.xor(result, v128.and(v128.and(a, sign), isOdd)));
      const isNegative = v128.and(f32x4.lt(a, zero), f32x4.lt(magnitude, infinity));
      const isUnordered = v128.or(f32x4.ne(a, a), f32x4.ne(b, b));
      choose(f32x4.const(Number.NaN), v128.or(isUnordered, v128.andnot(isNegative, isWhole)));
      return f.choose(one, result, f32x4.eq(b, zero));
    };
    return unlessAny(f, outside(a), () => powers(splitUsual(magnitude), halves), withAll);
  };
}
