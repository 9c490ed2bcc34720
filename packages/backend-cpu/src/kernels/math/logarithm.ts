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

/** ln x within 1 ULP; ln 0 = -Infinity, of negative numbers NaN. */
export function logarithm(f: FunctionBuilder): VectorFunction {
  const split = splitExponent(f);
  const p = polynomial(f, coefficients);
  const { zero, half, one } = sharedConstants(f);
  const high = f.let(f32x4.const(ln2High));
  const low = f.let(f32x4.const(ln2Low));
  const infinity = f.let(f32x4.const(Number.POSITIVE_INFINITY));
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const nan = f.let(f32x4.const(Number.NaN));
  return (argument) => {
    const x = f.let(argument);
    const { exponent, fraction } = split(x);
    const y = f.let(f32x4.sub(fraction, one));
    const square = f.let(f32x4.mul(y, y));
    const small = f.multiplyAdd(f32x4.mul(y, square), p(y), f32x4.mul(exponent, low));
    const rest = f.multiplySubtract(half, square, small);
    const result = f.let(f.multiplyAdd(exponent, high, f32x4.add(y, rest)));
    const choose = (value: Vector, mask: Vector): void => f.set(result, f.choose(value, result, mask));
    choose(minusInfinity, f32x4.eq(x, zero));
    // Infinity and NaN are their own logarithms: all that is not below Infinity.
    choose(x, v128.not(f32x4.lt(x, infinity)));
    choose(nan, f32x4.lt(x, zero));
    return result;
  };
}
