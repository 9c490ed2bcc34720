import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import { polynomial, sharedConstants, type Vector, type VectorLocal } from "./emit.js";

const smallestNormal = 2 ** -126;

/**
 * x = 2^exponent * fraction with the fraction in [sqrt(1/2), sqrt(2)), for positive finite x,
 * subnormal ones included. Both parts are f32 and exact.
 */
export function splitExponent(
  f: FunctionBuilder,
): (x: VectorLocal) => { readonly exponent: VectorLocal; readonly fraction: VectorLocal } {
  const normal = f.let(f32x4.const(smallestNormal));
  const up = f.let(f32x4.const(2 ** 23));
  const down = f.let(f32x4.const(-23));
  const one = f.let(f32x4.const(1));
  const lowest = f.let(f32x4.const(Math.SQRT1_2));
  return (x) => {
    const subnormal = f.let(f32x4.lt(x, normal));
    const scaled = f.let(f32x4.mul(x, f.choose(up, one, subnormal)));
    // From the bits of sqrt(1/2) on, these count fractions first and then exponents.
    const steps = f.let(i32x4.shrS(i32x4.sub(scaled, lowest), 23));
    return {
      fraction: f.let(i32x4.sub(scaled, i32x4.shl(steps, 23))),
      exponent: f.let(f32x4.add(f32x4.convertI32x4S(steps), v128.and(down, subnormal))),
    };
  };
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

interface LogarithmParts {
  readonly exponent: VectorLocal;
  /** x = 2^exponent (1 + y) */
  readonly y: VectorLocal;
  /** ln(1 + y) - y + y^2 / 2, from y and y^2. */
  readonly cubic: (square: VectorLocal) => Vector;
}

/** Computes with the parts of x > 0; logarithms of 0, Infinity, NaN and negative numbers are the same to every base. */
function toAnyBase(f: FunctionBuilder, compute: (parts: LogarithmParts) => Vector): VectorFunction {
  const split = splitExponent(f);
  const p = polynomial(f, coefficients);
  const { zero, one } = sharedConstants(f);
  const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const nan = f.let(f32x4.const(Number.NaN));
  return (argument) => {
    const x = f.let(argument);
    const { exponent, fraction } = split(x);
    const y = f.let(f32x4.sub(fraction, one));
    const cubic = (square: VectorLocal): Vector => f32x4.mul(f32x4.mul(y, square), p(y));
    const result = f.let(compute({ exponent, y, cubic }));
    const choose = (value: Vector, mask: Vector): void => f.set(result, f.choose(value, result, mask));
    choose(minusInfinity, f32x4.eq(x, zero));
    // Infinity and NaN are their own logarithms: all that is not below Infinity.
    choose(x, v128.not(f32x4.lt(x, infinity)));
    choose(nan, f32x4.lt(x, zero));
    return result;
  };
}

/** ln x within 1 ULP; ln 0 = -Infinity, of negative numbers NaN. */
export function logarithm(f: FunctionBuilder): VectorFunction {
  const { half } = sharedConstants(f);
  const high = f.let(f32x4.const(ln2High));
  const low = f.let(f32x4.const(ln2Low));
  return toAnyBase(f, ({ exponent, y, cubic }) => {
    const square = f.let(f32x4.mul(y, y));
    const small = f32x4.add(cubic(square), f32x4.mul(exponent, low));
    const rest = f.multiplySubtract(half, square, small);
    return f.multiplyAdd(exponent, high, f32x4.add(y, rest));
  });
}

/** log2 e, its first part with 12 significant bits. */
const log2eHigh = 1.4423828125;
const log2eLow = Math.LOG2E - log2eHigh;

/** log2 x; whole for powers of two. The product of y with log2 e is the sum of two. */
export function binaryLogarithm(f: FunctionBuilder): VectorFunction {
  const { half } = sharedConstants(f);
  const high = f.let(f32x4.const(log2eHigh));
  const low = f.let(f32x4.const(log2eLow));
  const first12 = f.let(i32x4.const(0xfffff000 | 0));
  return toAnyBase(f, ({ exponent, y, cubic }) => {
    const square = f.let(f32x4.mul(y, y));
    const rest = f.let(f.multiplySubtract(half, square, cubic(square)));
    const front = f.let(v128.and(y, first12));
    // y = front + back; front times the first part is exact.
    const back = f.let(f32x4.add(f32x4.sub(y, front), rest));
    const small = f.multiplyAdd(f32x4.add(front, back), low, f32x4.mul(back, high));
    return f32x4.add(exponent, f32x4.add(f32x4.mul(front, high), small));
  });
}

/** ln(1 + x): of the rounded sum, and what it lost. */
export function logarithmOfOnePlus(f: FunctionBuilder): VectorFunction {
  const { zero, one, sign } = sharedConstants(f);
  const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
  const log = logarithm(f);
  return (argument) => {
    const x = f.let(argument);
    const sum = f.let(f32x4.add(one, x));
    const lost = f32x4.sub(x, f32x4.sub(sum, one));
    const hasRest = v128.and(f32x4.gt(sum, zero), f32x4.lt(sum, infinity));
    const result = f32x4.add(log(sum), v128.and(f32x4.div(lost, sum), hasRest));
    // The sign is lost for -0 only.
    return f.let(v128.or(result, v128.and(x, sign)));
  };
}
