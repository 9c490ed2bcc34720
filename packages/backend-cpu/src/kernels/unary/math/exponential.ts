import { type FunctionBuilder, f32x4, i32x4, v128 } from "../../../wasm/index.js";
import type { VectorFunction } from "../../vector/function.js";
import { polynomial, type Vector, type VectorLocal } from "./emit.js";

/**
 * e^x = mantissa * scale. The mantissa is about 2^(n/2) and never subnormal for an x of at least
 * -170, so that products with it can be formed before the scale rounds them to a subnormal result.
 */
export interface ScaledExponential {
  readonly mantissa: VectorLocal;
  /** A power of two. */
  readonly scale: VectorLocal;
}

/** Below this even 2^7 e^x rounds to 0; above the upper limit e^x overflows. */
const lowest = -170;
const highest = 89;

/** ln 2, its first part with 15 significant bits: its multiples by n are exact. */
const ln2High = 0.693145751953125;
const ln2Low = Math.LN2 - ln2High;

/** Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits. */
const roundingBias = 12582912;

/**
 * (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, minimax for the relative error of e^r (2^-28.2), found
 * with Remez' algorithm; the coefficients were rounded to f32 one by one, the rest refitted.
 */
const coefficients = [
  0.4999999403953552, 0.16666513681411743, 0.041668061167001724, 0.008369549177587032, 0.0013843872584402561,
];

/**
 * e^(x + correction), the correction being small (below 0.05) and optional. NaN stays NaN.
 *
 * x = n ln 2 + r with whole n and |r| <= ln(2) / 2; e^x = 2^n e^r. n is applied in two halves, so
 * that results down to the smallest subnormal are rounded once and overflow gives Infinity.
 */
export function scaledExponential(f: FunctionBuilder): (x: Vector, correction?: Vector) => ScaledExponential {
  const lower = f.let(f32x4.const(lowest));
  const upper = f.let(f32x4.const(highest));
  const log2e = f.let(f32x4.const(Math.LOG2E));
  const bias = f.let(f32x4.const(roundingBias));
  const high = f.let(f32x4.const(ln2High));
  const low = f.let(f32x4.const(ln2Low));
  const one = f.let(f32x4.const(1));
  const exponentBias = f.let(i32x4.const(127));
  const q = polynomial(f, coefficients);
  return (argument, correction) => {
    const x = f.let(f32x4.pmin(f32x4.pmax(argument, lower), upper));
    const biased = f.let(f32x4.add(f32x4.mul(x, log2e), bias));
    const n = f.let(f32x4.sub(biased, bias));
    const r = f.let(f32x4.sub(f32x4.sub(x, f32x4.mul(n, high)), f32x4.mul(n, low)));
    if (correction) f.set(r, f32x4.add(r, correction));
    const tail = f32x4.add(r, f32x4.mul(f32x4.mul(r, r), q(r)));
    const power = f.let(f32x4.add(one, tail));
    const integer = f.let(i32x4.sub(biased, bias));
    const first = f.let(i32x4.shrS(integer, 1));
    const second = i32x4.sub(integer, first);
    const powerOfTwo = (exponent: Vector): Vector => i32x4.shl(i32x4.add(exponent, exponentBias), 23);
    return {
      mantissa: f.let(f32x4.mul(power, powerOfTwo(first))),
      scale: f.let(powerOfTwo(second)),
    };
  };
}

/** e^x, within 1 ULP. */
export function exponential(f: FunctionBuilder): VectorFunction {
  const scaled = scaledExponential(f);
  return (x) => {
    const { mantissa, scale } = scaled(x);
    return f.let(f32x4.mul(mantissa, scale));
  };
}

/** e^-|x| */
export function decay(f: FunctionBuilder): VectorFunction {
  const exp = exponential(f);
  const sign = f.let(i32x4.const(0x80000000 | 0));
  return (x) => exp(v128.or(x, sign));
}
