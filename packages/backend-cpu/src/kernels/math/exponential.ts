import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import { polynomial, unlessAny, type Vector, type VectorLocal } from "./emit.js";

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
const highest = 90;

/** ln 2, its first part with 15 significant bits: its multiples by n are exact. */
const ln2High = 0.693145751953125;
const ln2Low = Math.LN2 - ln2High;

/** Adding 1.5 * 2^23 rounds to a whole number, which is then in the low bits. */
export const roundingBias: number = 12582912;

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
  /** e^(factor r), in [sqrt(1/2), sqrt(2)] */
  readonly power: VectorLocal;
  /** The low bits hold n + 127: shifted to their place they are 2^n. */
  readonly biased: VectorLocal;
}

/**
 * x - excess = n ln(2) / factor + r with whole n and |r| <= ln(2) / 2 |factor|; then
 * e^(factor (x - excess)) = 2^n e^(factor r). The factor is 1 or another power of two, of either
 * sign; it is part of the constants, without any rounding.
 */
function exponentialParts(f: FunctionBuilder, factor: number): (x: Vector, excess?: Vector) => Parts {
  const log2e = f.let(f32x4.const(Math.LOG2E * factor));
  const bias = f.let(f32x4.const(roundingBias + 127));
  const high = f.let(f32x4.const(ln2High / factor));
  const low = f.let(f32x4.const(ln2Low / factor));
  const one = f.let(f32x4.const(1));
  const slope = factor === 1 ? one : f.let(f32x4.const(factor));
  const q = polynomial(
    f,
    coefficients.map((coefficient, i) => coefficient * factor ** (i + 2)),
  );
  return (x, excess) => {
    const biased = f.let(f.multiplyAdd(x, log2e, bias));
    const n = f.let(f32x4.sub(biased, bias));
    const rest = f.multiplySubtract(n, high, x);
    const r = f.let(
      excess ? f32x4.sub(rest, f.multiplyAdd(n, low, excess)) : f.multiplySubtract(n, low, rest),
    );
    // 1 + factor r + r^2 q. Unfused, the first form would round once more close to the end.
    const power = f.relaxedSimd
      ? f.multiplyAdd(r, f.multiplyAdd(r, q(r), slope), one)
      : f32x4.add(one, f.multiplyAdd(f32x4.mul(r, r), q(r), factor === 1 ? r : f32x4.mul(slope, r)));
    return { power: f.let(power), biased };
  };
}

/** e^(x - excess) for |x| <= 87 only (or NaN), the excess being small (below 0.05) and optional. */
export function normalExponential(f: FunctionBuilder): (x: Vector, excess?: Vector) => VectorLocal {
  const split = splitExponential(f);
  return (argument, excess) => {
    const { mantissa, scale } = split(argument, excess);
    return f.let(f32x4.mul(mantissa, scale));
  };
}

/**
 * e^(factor (x - excess)) under the same conditions for factor x, in two factors; the mantissa is in
 * [sqrt(1/2), sqrt(2)].
 */
export function splitExponential(
  f: FunctionBuilder,
  factor = 1,
): (x: Vector, excess?: Vector) => ScaledExponential {
  const parts = exponentialParts(f, factor);
  return (argument, excess) => {
    const { power, biased } = parts(f.let(argument), excess);
    return { mantissa: power, scale: f.let(i32x4.shl(biased, 23)) };
  };
}

/** The same for every x. n is applied in two halves: results down to the smallest subnormal are rounded once. */
export function scaledExponential(
  f: FunctionBuilder,
  factor = 1,
): (x: Vector, excess?: Vector) => ScaledExponential {
  const limits = [lowest / factor, highest / factor];
  const lower = f.let(f32x4.const(Math.min(...limits)));
  const upper = f.let(f32x4.const(Math.max(...limits)));
  // `biased` less this is n + 2 * 127, for two exponents.
  const biasBits = f.let(i32x4.const(0x4b400000 - 127));
  const parts = exponentialParts(f, factor);
  return (argument, excess) => {
    const x = f.let(f32x4.pmin(f32x4.pmax(argument, lower), upper));
    const { power, biased } = parts(x, excess);
    const exponents = f.let(i32x4.sub(biased, biasBits));
    const first = f.let(i32x4.shrS(exponents, 1));
    const second = i32x4.sub(exponents, first);
    return {
      mantissa: f.let(f32x4.mul(power, i32x4.shl(first, 23))),
      scale: f.let(i32x4.shl(second, 23)),
    };
  };
}

/** Below this e^x is less than half of the smallest number of f32, and rounds to 0. */
const nothingBelow = -104;

/**
 * e^x, within 1 ULP. Subnormal results take many times as long as others. -Infinity, which hides elements, is not taken for one:
 * softmax is 3 to 4 times as fast for it if half of the elements are hidden, attention twice.
 */
export function exponential(f: FunctionBuilder): VectorFunction {
  const limit = f.let(f32x4.const(normalLimit));
  const normal = normalExponential(f);
  return (argument) => {
    const x = f.let(argument);
    const isOutside = () => f32x4.gt(f32x4.abs(x), limit);
    return unlessAny(
      f,
      isOutside(),
      () => normal(x),
      (usual) => {
        const isNothing = f.let(f32x4.lt(x, f32x4.const(nothingBelow)));
        const result = f.let(v128.andnot(usual, isNothing));
        f.if(i32x4.bitmask(v128.andnot(isOutside(), isNothing)), () => {
          const { mantissa, scale } = scaledExponential(f)(x);
          f.set(result, f32x4.mul(mantissa, scale));
        });
        return result;
      },
    );
  };
}

/** (2^r - 1) / r on |r| <= 1/2, minimax for the relative error of 2^r (2^-32.5), fitted as above. */
const coefficientsOfTwo = [
  0.6931471824645996, 0.24022650718688965, 0.05550406128168106, 0.009618088603019714, 0.0013336667325347662,
  0.00015451414219569415, 1.4670752534584608e-5,
];

/** 2^x = 2^n 2^r with whole n, exact for whole x. n is applied in two halves, which rounds subnormal results once. */
export function exponentialOfTwo(f: FunctionBuilder): VectorFunction {
  const lower = f.let(f32x4.const(-152));
  const upper = f.let(f32x4.const(129));
  const bias = f.let(f32x4.const(roundingBias));
  const biasBits = f.let(i32x4.const(0x4b400000 - 254));
  const one = f.let(f32x4.const(1));
  const p = polynomial(f, coefficientsOfTwo);
  return (argument) => {
    const x = f.let(f32x4.pmin(f32x4.pmax(argument, lower), upper));
    const biased = f.let(f32x4.add(x, bias));
    const r = f.let(f32x4.sub(x, f32x4.sub(biased, bias)));
    const exponents = f.let(i32x4.sub(biased, biasBits));
    const first = f.let(i32x4.shrS(exponents, 1));
    const power = f.multiplyAdd(r, p(r), one);
    const half = f32x4.mul(power, i32x4.shl(first, 23));
    return f.let(f32x4.mul(half, i32x4.shl(i32x4.sub(exponents, first), 23)));
  };
}

/** e^-|x| */
export function decay(f: FunctionBuilder): VectorFunction {
  const exp = exponential(f);
  const sign = f.let(i32x4.const(0x80000000 | 0));
  return (x) => exp(v128.or(x, sign));
}
