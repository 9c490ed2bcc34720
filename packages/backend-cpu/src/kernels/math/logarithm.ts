import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import { polynomial, sharedConstants, unlessAny, type Vector, type VectorLocal } from "./emit.js";

interface Parts {
  readonly exponent: VectorLocal;
  readonly fraction: VectorLocal;
}

/**
 * x = 2^exponent * fraction with the fraction in [sqrt(1/2), sqrt(2)), for positive normal numbers. Both parts are f32
 * and exact.
 */
export function splitNormal(f: FunctionBuilder): (x: VectorLocal) => Parts {
  const lowest = f.let(f32x4.const(Math.SQRT1_2));
  return (x) => {
    // From the bits of sqrt(1/2) on, these count fractions first and then exponents.
    const steps = f.let(i32x4.shrS(i32x4.sub(x, lowest), 23));
    return {
      fraction: f.let(i32x4.sub(x, i32x4.shl(steps, 23))),
      exponent: f.let(f32x4.convertI32x4S(steps)),
    };
  };
}

/** The same for positive subnormal numbers as well. */
export function splitExponent(f: FunctionBuilder): (x: VectorLocal) => Parts {
  const normal = f.let(f32x4.const(2 ** -126));
  const up = f.let(f32x4.const(2 ** 23));
  const down = f.let(f32x4.const(-23));
  const one = f.let(f32x4.const(1));
  const split = splitNormal(f);
  return (x) => {
    const subnormal = f.let(f32x4.lt(x, normal));
    const { fraction, exponent } = split(f.let(f32x4.mul(x, f.choose(up, one, subnormal))));
    return { fraction, exponent: f.let(f32x4.add(exponent, v128.and(down, subnormal))) };
  };
}

/** The lanes outside of [2^-126, 2^end): zeros, subnormal and negative numbers, NaN, and large numbers. */
export function outsideOfNormal(f: FunctionBuilder, end = 128): (x: Vector) => Vector {
  // Bits less those of 2^-126, and then less 2^31, count from the least i32 on.
  const shift = f.let(i32x4.const(0x7f800000));
  const last = f.let(i32x4.const((0x80000000 | 0) + ((end + 126) << 23) - 1));
  return (x) => i32x4.gtS(i32x4.add(x, shift), last);
}

/** ln 2, its first part with 15 significant bits. */
const ln2High = 0.693145751953125;
const ln2Low = Math.LN2 - ln2High;

/**
 * (ln(1 + y) - y + y^2 / 2) / y^3 on 1 + y in [sqrt(1/2), sqrt(2)], near-minimax for the relative
 * error of ln(1 + y) (2^-30.2): weighted least squares on Chebyshev nodes, reweighted by Lawson's
 * method; the coefficients were rounded to f32 one by one, the rest refitted.
 */
const coefficients = [
  0.3333331346511841, -0.25000008940696716, 0.2000207155942917, -0.16667990386486053, 0.14220361411571503,
  -0.12406202405691147, 0.11883483082056046, -0.11670258641242981, 0.06749619543552399,
];

/** From x = 2^exponent (1 + y). */
type Combine = (exponent: VectorLocal, y: VectorLocal) => Vector;

/** start + (ln(1 + y) - y + y^2 / 2), from y and y^2. */
function plusCubic(f: FunctionBuilder): (y: VectorLocal, square: VectorLocal, start: Vector) => Vector {
  const p = polynomial(f, coefficients);
  return (y, square, start) => f.multiplyAdd(f32x4.mul(y, square), p(y), start);
}

/**
 * The logarithm of every x, from that of its parts. Vectors of positive normal numbers, the usual ones, take half as
 * many steps as others. Logarithms of 0, Infinity, NaN and negative numbers are the same to every base.
 */
function toAnyBase(f: FunctionBuilder, combine: Combine): VectorFunction {
  const outside = outsideOfNormal(f);
  const splitUsual = splitNormal(f);
  const { one } = sharedConstants(f);
  return (argument) => {
    const x = f.let(argument);
    const ofParts = ({ exponent, fraction }: Parts): Vector =>
      combine(exponent, f.let(f32x4.sub(fraction, one)));
    const withAll = (): Vector => {
      const { zero } = sharedConstants(f);
      const result = f.let(ofParts(splitExponent(f)(x)));
      const choose = (value: Vector, mask: Vector): void => f.set(result, f.choose(value, result, mask));
      choose(f32x4.const(Number.NEGATIVE_INFINITY), f32x4.eq(x, zero));
      // Infinity and NaN are their own logarithms: all that is not below Infinity.
      choose(x, v128.not(f32x4.lt(x, f32x4.const(Number.POSITIVE_INFINITY))));
      choose(f32x4.const(Number.NaN), f32x4.lt(x, zero));
      return result;
    };
    return unlessAny(f, outside(x), () => ofParts(splitUsual(x)), withAll);
  };
}

/** exponent ln(2) + ln(1 + y), within 1 ULP. */
function natural(f: FunctionBuilder): Combine {
  const { half } = sharedConstants(f);
  const high = f.let(f32x4.const(ln2High));
  const low = f.let(f32x4.const(ln2Low));
  const plus = plusCubic(f);
  return (exponent, y) => {
    const square = f.let(f32x4.mul(y, y));
    const start = f.multiplySubtract(half, square, f32x4.mul(exponent, low));
    const rest = plus(y, square, start);
    return f.multiplyAdd(exponent, high, f32x4.add(y, rest));
  };
}

/** ln x within 1 ULP; ln 0 = -Infinity, of negative numbers NaN. */
export function logarithm(f: FunctionBuilder): VectorFunction {
  return toAnyBase(f, natural(f));
}

/** log2 e, its first part with 12 significant bits. */
const log2eHigh = 1.4423828125;
const log2eLow = Math.LOG2E - log2eHigh;

/** log2 x; whole for powers of two. The product of y with log2 e is the sum of two. */
export function binaryLogarithm(f: FunctionBuilder): VectorFunction {
  const high = f.let(f32x4.const(log2eHigh));
  const low = f.let(f32x4.const(log2eLow));
  const first12 = f.let(i32x4.const(0xfffff000 | 0));
  const plus = plusCubic(f);
  const minusHalf = f.let(f32x4.const(-0.5));
  return toAnyBase(f, (exponent, y) => {
    const square = f.let(f32x4.mul(y, y));
    const rest = f.let(plus(y, square, f32x4.mul(minusHalf, square)));
    const front = f.let(v128.and(y, first12));
    // y = front + back; front times the first part is exact.
    const back = f.let(f32x4.add(f32x4.sub(y, front), rest));
    const small = f.multiplyAdd(f32x4.add(front, back), low, f32x4.mul(back, high));
    return f32x4.add(exponent, f32x4.add(f32x4.mul(front, high), small));
  });
}

/** Up to here the powers of two that scale x and 1 are normal numbers. */
const scalable = 126;

/**
 * ln(1 + x) for -1 < x < 2^126, or NaN. With 1 + x, rounded, in [sqrt(1/2), sqrt(2)) 2^n, y is 2^-n x + (2^-n - 1). A
 * sum 1 + x would have to be corrected by what it lost divided by it; here nothing is lost where ln 2 does not hide it.
 */
export function finiteLogarithmOfOnePlus(f: FunctionBuilder): VectorFunction {
  const { one } = sharedConstants(f);
  const lowest = f.let(f32x4.const(Math.SQRT1_2));
  const log = natural(f);
  return (argument) => {
    const x = f.let(argument);
    const steps = f.let(i32x4.shrS(i32x4.sub(f32x4.add(one, x), lowest), 23));
    const scale = f.let(i32x4.sub(one, i32x4.shl(steps, 23)));
    const y = f.let(f32x4.add(f32x4.mul(x, scale), f32x4.sub(scale, one)));
    return f.let(log(f.let(f32x4.convertI32x4S(steps)), y));
  };
}

/** ln(1 + x) for every x. */
export function logarithmOfOnePlus(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  const outside = outsideOfNormal(f, scalable);
  const finite = finiteLogarithmOfOnePlus(f);
  return (argument) => {
    const x = f.let(argument);
    const sum = f.let(f32x4.add(one, x));
    const isOutside = f.let(outside(sum));
    const usual = f.let(finite(x));
    // Large numbers are their own sums.
    const withAll = (): Vector => f.choose(logarithm(f)(sum), usual, isOutside);
    const result = unlessAny(f, isOutside, () => usual, withAll);
    // The sign is lost for -0 only.
    return f.let(v128.or(result, v128.and(x, sign)));
  };
}
