import { type FunctionBuilder, f32x4, f64x2, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import {
  decay,
  demote,
  exponential,
  finiteLogarithmOfOnePlus,
  normalExponential,
  normalLimit,
  polynomial,
  promote,
  roundingBias,
  scaledExponential,
  sharedConstants,
  unlessAny,
  type Vector,
  type VectorLocal,
} from "../math/index.js";

/** Functions made of e^x whose both ends stay accurate: e^-|x| cannot overflow. */

/**
 * 2^n (e^r - 1) + (2^n - 1) with x = n ln(2) + r, in which nothing cancels: the first part is at most as large
 * as the result. Beyond |x| = 87 it is e^x - 1.
 */
export function exponentialLessOne(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(normalLimit));
  const log2e = f.let(f32x4.const(Math.LOG2E));
  const bias = f.let(f32x4.const(roundingBias + 127));
  // ln 2 in two parts; multiples of the first are exact.
  const high = f.let(f32x4.const(0.693145751953125));
  const low = f.let(f32x4.const(Math.LN2 - 0.693145751953125));
  // (e^r - 1 - r) / r^2, which is half of that polynomial at r / 2.
  const p = polynomial(
    f,
    tanhCoefficients.map((coefficient, i) => coefficient / 2 ** (i + 1)),
  );
  return (argument) => {
    const x = f.let(argument);
    // The low bits hold n + 127: shifted to their place they are 2^n.
    const biased = f.let(f.multiplyAdd(x, log2e, bias));
    const n = f.let(f32x4.sub(biased, bias));
    const r = f.let(f.multiplySubtract(n, low, f.multiplySubtract(n, high, x)));
    const scale = f.let(i32x4.shl(biased, 23));
    const rest = f.multiplyAdd(f32x4.mul(r, r), p(r), r);
    const usual = f.let(f.multiplyAdd(scale, rest, f32x4.sub(scale, one)));
    const size = f.let(f32x4.abs(x));
    const beyond = (): Vector => f.choose(f32x4.sub(exponential(f)(x), one), usual, f32x4.gt(size, limit));
    // The sign is lost for -0 only.
    return f.let(
      v128.or(
        unlessAny(f, f32x4.gt(size, limit), () => usual, beyond),
        v128.and(x, sign),
      ),
    );
  };
}

/** 1 / (1 + e^-x), as e^x / (1 + e^x) for negative x. */
export function sigmoid(f: FunctionBuilder): VectorFunction {
  const { zero, one } = sharedConstants(f);
  const e = decay(f);
  return (argument) => {
    const x = f.let(argument);
    const small = f.let(e(x));
    const numerator = f.choose(small, one, f32x4.lt(x, zero));
    return f.let(f32x4.div(numerator, f32x4.add(one, small)));
  };
}

/**
 * (h - r) / r^2 for h = (e^2r - 1) / 2 as a polynomial in r on |r| <= ln(2) / 4, near-minimax for the
 * error of tanh that follows from it (2^-26.6), fitted as those of the logarithm.
 */
const tanhCoefficients = [
  1.0000001192092896, 0.6666609048843384, 0.3333267867565155, 0.133897066116333, 0.044604189693927765,
];

/**
 * h / (h + 1) with h = (e^2|x| - 1) / 2, within 2.5 ULP (2.6 unfused). With |x| = n ln(2) / 2 + r, h is 2^n
 * times that of r, plus (2^n - 1) / 2. The larger h is, the less its rounding errors matter, so one form
 * serves for all x, and n ln(2) / 2 need not be exact.
 */
export function tanh(f: FunctionBuilder): VectorFunction {
  const { half, one, sign } = sharedConstants(f);
  // From here on h has 25 bits and h + 1 would be rounded up or down in turn; here h / (h + 1) is 1.
  const limit = f.let(f32x4.const(8.664340019226074));
  const steps = f.let(f32x4.const(2 / Math.LN2));
  const step = f.let(f32x4.const(Math.LN2 / 2));
  const bias = f.let(f32x4.const(roundingBias + 127));
  const minusHalf = f.let(f32x4.const(-0.5));
  const p = polynomial(f, tanhCoefficients);
  return (argument) => {
    const x = f.let(argument);
    const t = f.let(f32x4.pmin(f32x4.abs(x), limit));
    // The low bits hold n + 127: shifted to their place they are 2^n.
    const biased = f.let(f.multiplyAdd(t, steps, bias));
    const r = f.let(f.multiplySubtract(f32x4.sub(biased, bias), step, t));
    const scale = f.let(i32x4.shl(biased, 23));
    const rest = f.multiplyAdd(f32x4.mul(r, r), p(r), r);
    const h = f.let(f.multiplyAdd(scale, rest, f.multiplyAdd(scale, half, minusHalf)));
    const result = f32x4.div(h, f32x4.add(h, one));
    return f.let(v128.or(result, v128.and(x, sign)));
  };
}

/**
 * x / (1 + e^-(u - excess)) for a u with the sign of x. For negative u this is
 * x e^u / (1 + e^u), with the product formed before e^u may become subnormal.
 */
function weightedSigmoid(
  f: FunctionBuilder,
): (x: VectorLocal, u: VectorLocal, excess?: Vector) => VectorLocal {
  const { zero, one, sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(normalLimit));
  const normal = normalExponential(f);
  return (x, u, excess) => {
    const negative = f.let(f32x4.lt(u, zero));
    const turned = excess && f.let(v128.xor(excess, v128.andnot(sign, negative)));
    const withoutTails = (): Vector => {
      const e = normal(v128.or(u, sign), turned);
      return f32x4.div(f.choose(f32x4.mul(x, e), x, negative), f32x4.add(one, e));
    };
    const withTails = (): Vector => {
      const { mantissa, scale } = scaledExponential(f)(v128.or(u, sign), turned);
      const denominator = f.let(f32x4.add(one, f32x4.mul(mantissa, scale)));
      // When e^u has become 0, a large x must not bring it back.
      const limited = f32x4.pmax(x, f32x4.const(-128));
      const below = f32x4.mul(f32x4.div(f32x4.mul(limited, mantissa), denominator), scale);
      return f.choose(below, f32x4.div(x, denominator), negative);
    };
    return unlessAny(f, f32x4.gt(f32x4.abs(u), limit), withoutTails, withTails);
  };
}

/** x sigmoid(x), and -0 for -Infinity. */
export function silu(f: FunctionBuilder): VectorFunction {
  const weighted = weightedSigmoid(f);
  return (argument) => {
    const x = f.let(argument);
    return weighted(x, x);
  };
}

const tanhSlope = 2 * Math.sqrt(2 / Math.PI);
const tanhCubic = tanhSlope * 0.044715;

/**
 * x / 2 (1 + tanh(u / 2)) = x sigmoid(u) with u = 2 sqrt(2 / pi) (x + 0.044715 x^3). u reaches 170, at which
 * its rounding to f32 would already show in e^u, so it is computed in f64 and kept in two parts.
 */
export function geluTanh(f: FunctionBuilder): VectorFunction {
  const weighted = weightedSigmoid(f);
  const limit = f.let(f32x4.const(64));
  const minusLimit = f.let(f32x4.const(-64));
  const slope = f.let(f64x2.const(tanhSlope));
  const cubic = f.let(f64x2.const(tanhCubic));
  return (argument) => {
    const x = f.let(argument);
    const limited = f.let(f32x4.pmin(f32x4.pmax(x, minusLimit), limit));
    const exact = promote(f, limited).map((w) =>
      f.let(f64x2.mul(w, f64x2.add(slope, f64x2.mul(cubic, f64x2.mul(w, w))))),
    ) as [VectorLocal, VectorLocal];
    const high = f.let(demote(...exact));
    const [low, lower] = promote(f, high);
    const excess = demote(f64x2.sub(low, exact[0]), f64x2.sub(lower, exact[1]));
    return weighted(x, high, excess);
  };
}

/** max(x, 0) + ln(1 + e) with e = e^-|x| */
export function softplus(f: FunctionBuilder): VectorFunction {
  const { zero } = sharedConstants(f);
  const e = decay(f);
  const log1p = finiteLogarithmOfOnePlus(f);
  return (argument) => {
    const x = f.let(argument);
    return f.let(f32x4.add(f32x4.pmax(zero, x), log1p(e(x))));
  };
}
