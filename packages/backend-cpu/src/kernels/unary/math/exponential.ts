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

/** Up to here neither 2^n nor e^x leaves the normal numbers, with either sign. */
export const normalLimit: number = 87;

interface Parts {
  /** e^r, in [sqrt(1/2), sqrt(2)] */
  readonly power: VectorLocal;
  /** The low bits hold n + 127: shifted to their place they are 2^n. */
  readonly biased: VectorLocal;
}

/** x + correction = n ln 2 + r with whole n and |r| <= ln(2) / 2; e^x = 2^n e^r. */
function exponentialParts(f: FunctionBuilder): (x: Vector, correction?: Vector) => Parts {
  const log2e = f.let(f32x4.const(Math.LOG2E));
  const bias = f.let(f32x4.const(roundingBias + 127));
  const high = f.let(f32x4.const(ln2High));
  const low = f.let(f32x4.const(ln2Low));
  const one = f.let(f32x4.const(1));
  const q = polynomial(f, coefficients);
  return (x, correction) => {
    const biased = f.let(f.multiplyAdd(x, log2e, bias));
    const n = f.let(f32x4.sub(biased, bias));
    const r = f.let(f.multiplySubtract(n, low, f.multiplySubtract(n, high, x)));
    if (correction) f.set(r, f32x4.add(r, correction));
    // 1 + r + r^2 q. Unfused, the first form would round once more close to the end.
    const power = f.relaxedSimd
      ? f.multiplyAdd(r, f.multiplyAdd(r, q(r), one), one)
      : f32x4.add(one, f.multiplyAdd(f32x4.mul(r, r), q(r), r));
    return { power: f.let(power), biased };
  };
}

/** e^(x + correction) for |x| <= 87 only (or NaN), the correction being small (below 0.05) and optional. */
export function normalExponential(f: FunctionBuilder): (x: Vector, correction?: Vector) => VectorLocal {
  const parts = exponentialParts(f);
  return (argument, correction) => {
    const { power, biased } = parts(f.let(argument), correction);
    return f.let(f32x4.mul(power, i32x4.shl(biased, 23)));
  };
}

/** The same for every x. n is applied in two halves: results down to the smallest subnormal are rounded once. */
export function scaledExponential(f: FunctionBuilder): (x: Vector, correction?: Vector) => ScaledExponential {
  const lower = f.let(f32x4.const(lowest));
  const upper = f.let(f32x4.const(highest));
  // What remains of `biased` less this is n + 2 * 127, for two exponents.
  const biasBits = f.let(i32x4.const(0x4b400000 - 127));
  const parts = exponentialParts(f);
  return (argument, correction) => {
    const x = f.let(f32x4.pmin(f32x4.pmax(argument, lower), upper));
    const { power, biased } = parts(x, correction);
    const exponents = f.let(i32x4.sub(biased, biasBits));
    const first = f.let(i32x4.shrS(exponents, 1));
    const second = i32x4.sub(exponents, first);
    return {
      mantissa: f.let(f32x4.mul(power, i32x4.shl(first, 23))),
      scale: f.let(i32x4.shl(second, 23)),
    };
  };
}

/**
 * Emits `usual`, and `rare` in its place where some lane of |x| is above the limit: large arguments
 * take steps that would cost all others a good part of their time. Both give the same for small ones.
 */
export function unlessLarge(
  f: FunctionBuilder,
  magnitude: Vector,
  limit: Vector,
  usual: () => Vector,
  rare: () => Vector,
): VectorLocal {
  const result = f.let(usual());
  f.if(v128.anyTrue(f32x4.gt(magnitude, limit)), () => f.set(result, rare()));
  return result;
}

/** e^x, within 1 ULP. */
export function exponential(f: FunctionBuilder): VectorFunction {
  const limit = f.let(f32x4.const(normalLimit));
  const normal = normalExponential(f);
  const scaled = scaledExponential(f);
  return (argument) => {
    const x = f.let(argument);
    const withTails = (): Vector => {
      const { mantissa, scale } = scaled(x);
      return f32x4.mul(mantissa, scale);
    };
    return unlessLarge(f, f32x4.abs(x), limit, () => normal(x), withTails);
  };
}

/** e^-|x| */
export function decay(f: FunctionBuilder): VectorFunction {
  const exp = exponential(f);
  const sign = f.let(i32x4.const(0x80000000 | 0));
  return (x) => exp(v128.or(x, sign));
}
