import { type FunctionBuilder, f32x4, i32x4, v128 } from "../../../wasm/index.js";
import type { VectorFunction } from "../../vector/function.js";
import { polynomial, sharedConstants, type Vector, type VectorLocal } from "./emit.js";
import { normalExponential, scaledExponential, unlessLarge } from "./exponential.js";

/**
 * e^(x^2 / 2) times the upper tail of the normal distribution, 1 / sqrt(2 pi) * integral from x to
 * Infinity of e^(-t^2 / 2), for x in [0, 15], as a polynomial in y = (x - 4) / (x + 4). That mapping
 * is from M. Shepherd and J. Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in
 * 0 <= x < infinity", Mathematics of Computation 36 (1981). The coefficients are our own:
 * near-minimax for the relative error (2^-25.7), fitted as those of the logarithm.
 */
const tailCoefficients = [
  0.09441064298152924, -0.17039772868156433, 0.12437914311885834, -0.07170704752206802, 0.03086622804403305,
  -0.008495420217514038, 0.0004999474040232599, 0.0006489558145403862, -0.00016695732483640313,
  -5.394431354943663e-5, 5.803735348308692e-6,
];

function scaledTail(f: FunctionBuilder): (x: VectorLocal) => VectorLocal {
  const centre = f.let(f32x4.const(4));
  const p = polynomial(f, tailCoefficients);
  return (x) => {
    const y = f.let(f32x4.div(f32x4.sub(x, centre), f32x4.add(x, centre)));
    return f.let(p(y));
  };
}

/** The leading 12 significant bits: their square is exact in f32. */
const leadingBits = -4096;

/**
 * x / 2 (1 + erf(x / sqrt(2))) = x times the lower tail at x, which for negative x is the upper tail
 * at |x|; for positive x it is 1 less that. NaN for -Infinity, as the formula says.
 *
 * -x^2 / 2 goes to the exponential in two parts, z^2 / 2 and (|x| - z) (|x| + z) / 2 with z the
 * leading bits of |x|, so that it is accurate to the end of the negative tail.
 */
export function gelu(f: FunctionBuilder): VectorFunction {
  const { zero, one, sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(15));
  // From here to there the upper tail is far from subnormal.
  const normalTail = f.let(f32x4.const(12));
  const leading = f.let(i32x4.const(leadingBits));
  const minusHalf = f.let(f32x4.const(-0.5));
  const normal = normalExponential(f);
  const scaled = scaledExponential(f);
  const tail = scaledTail(f);
  /** -t^2 / 2 in two parts. */
  const exponent = (t: VectorLocal): [Vector, Vector] => {
    const z = f.let(v128.and(t, leading));
    const rest = f.let(f32x4.mul(minusHalf, f32x4.mul(f32x4.sub(t, z), f32x4.add(t, z))));
    return [f32x4.mul(minusHalf, f32x4.mul(z, z)), rest];
  };
  return (argument) => {
    const x = f.let(argument);
    const magnitude = f.let(f32x4.abs(x));
    const isNegative = f.let(f32x4.lt(x, zero));
    const withoutTails = (): Vector => {
      const upper = f.let(f32x4.mul(normal(...exponent(magnitude)), tail(magnitude)));
      const weight = f.choose(upper, f32x4.sub(one, upper), isNegative);
      return f32x4.mul(x, weight);
    };
    const withTails = (): Vector => {
      const t = f.let(f32x4.pmin(magnitude, limit));
      const { mantissa, scale } = scaled(...exponent(t));
      const upper = f.let(f32x4.mul(mantissa, tail(t)));
      const product = f32x4.mul(f32x4.mul(v128.xor(t, sign), upper), scale);
      // -Infinity times a zero is NaN; for finite x this adds a zero of the same sign.
      const negative = f32x4.add(product, f32x4.mul(x, zero));
      const positive = f32x4.mul(x, f32x4.sub(one, f32x4.mul(upper, scale)));
      return f.choose(negative, positive, isNegative);
    };
    return unlessLarge(f, magnitude, normalTail, withoutTails, withTails);
  };
}

/**
 * erf(x) / x - 1 as a polynomial in x^2 on |x| <= 7/8, near-minimax for the relative error of erf
 * (2^-30.1), fitted as those of the logarithm.
 */
const erfCoefficients = [
  0.12837916612625122, -0.3761262893676758, 0.11283622682094574, -0.026855358853936195, 0.005190895404666662,
  -0.000802536029368639, 7.860294863348827e-5,
];

/** x + x p(x^2) near 0; elsewhere 1 less twice the upper tail at sqrt(2) |x|. */
export function erf(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  // Beyond this erf rounds to 1.
  const limit = f.let(f32x4.const(4.5));
  const border = f.let(f32x4.const(0.875));
  const sqrt2 = f.let(f32x4.const(Math.SQRT2));
  const leading = f.let(i32x4.const(leadingBits));
  const near = polynomial(f, erfCoefficients);
  const exp = normalExponential(f);
  const tail = scaledTail(f);
  return (argument) => {
    const x = f.let(argument);
    const square = f.let(f32x4.mul(x, x));
    const small = f.multiplyAdd(x, near(square), x);
    const magnitude = f.let(f32x4.abs(x));
    const t = f.let(f32x4.pmin(magnitude, limit));
    const z = f.let(v128.and(t, leading));
    const rest = f.let(f32x4.mul(f32x4.sub(z, t), f32x4.add(t, z)));
    const e = exp(v128.xor(f32x4.mul(z, z), sign), rest);
    const upper = f.let(f32x4.mul(e, tail(f.let(f32x4.mul(t, sqrt2)))));
    const large = v128.or(f32x4.sub(one, f32x4.add(upper, upper)), v128.and(x, sign));
    return f.let(f.choose(small, large, f32x4.lt(magnitude, border)));
  };
}
