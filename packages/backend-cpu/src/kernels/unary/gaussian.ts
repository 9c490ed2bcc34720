import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import {
  polynomial,
  roundingBias,
  type ScaledExponential,
  scaledExponential,
  sharedConstants,
  splitExponential,
  tree,
  unlessAny,
  type Vector,
  type VectorLocal,
} from "../math/index.js";

/**
 * e^(x^2 / 2) times the upper tail of the normal distribution, 1 / sqrt(2 pi) * integral from x to Infinity
 * of e^(-t^2 / 2), for x in [0, 15], as a quotient of two polynomials, near-minimax for the relative error
 * (2^-26.3): least squares of numerator - tail * denominator, reweighted by Lawson's method. The coefficients
 * were rounded to f32 one by one and the rest refitted, in the order that gave the best result. All are
 * positive, so nothing cancels.
 */
const tailNumerator = [
  48.033172607421875, 42.200016021728516, 17.67284393310547, 3.9271209239959717, 0.3989465534687042,
];
const tailDenominator = [
  96.06634521484375, 161.0499267578125, 115.811279296875, 45.28541946411133, 9.844419479370117, 1,
];

function scaledTail(f: FunctionBuilder): (x: VectorLocal) => VectorLocal {
  const numerator = polynomial(f, tailNumerator);
  const denominator = polynomial(f, tailDenominator);
  return (x) => f.let(f32x4.div(numerator(x), denominator(x)));
}

/**
 * x^2 as a number and its excess over x^2, so that its exponential is accurate to the end of the tail. The number
 * is the square of the leading 12 significant bits of x, which is exact. A relaxed multiply-add would give the
 * excess of x^2, rounded, in one instruction, but only if it is fused, which engines need not do.
 */
function exactSquare(f: FunctionBuilder): (x: VectorLocal) => [Vector, Vector] {
  const leading = f.let(i32x4.const(-4096));
  return (x) => {
    const z = f.let(v128.and(x, leading));
    return [f32x4.mul(z, z), f32x4.mul(f32x4.sub(z, x), f32x4.add(x, z))];
  };
}

/** From here on the upper tail may be subnormal. */
const normalTail = 12;

/**
 * x / 2 (1 + erf(x / sqrt(2))) = max(x, 0) - |x| times the upper tail at |x|: for negative x that is x
 * times the lower tail, and -0 for -Infinity.
 */
export function gelu(f: FunctionBuilder): VectorFunction {
  const { sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(normalTail));
  const square = exactSquare(f);
  const normal = splitExponential(f, -0.5);
  const tail = scaledTail(f);
  return (argument) => {
    const x = f.let(argument);
    const magnitude = f.let(f32x4.abs(x));
    // -0 for negative x, and for -0 itself.
    const positivePart = f.let(f32x4.pmax(x, sign));
    // Multiply first the factors that do not need the mantissa, which takes longest; scales are exact.
    const lessTail = (start: Vector, t: VectorLocal, { mantissa, scale }: ScaledExponential): Vector =>
      f.multiplySubtract(mantissa, f32x4.mul(f32x4.mul(t, tail(t)), scale), start);
    // The square of the magnitude, which the tail needs as well, is computed once.
    const withoutTails = (): Vector => lessTail(positivePart, magnitude, normal(...square(magnitude)));
    const withTails = (): Vector => {
      const scaled = scaledExponential(f, -0.5);
      const t = f.let(f32x4.pmin(magnitude, f32x4.const(15)));
      return lessTail(positivePart, t, scaled(...square(t)));
    };
    return unlessAny(f, f32x4.gt(magnitude, limit), withoutTails, withTails);
  };
}

/** erf(x) / x - 1 in powers of x^2 on |x| <= 3/4, near-minimax for erf (2^-29.2), fitted as those of the logarithm. */
const nearCoefficients = [
  0.12837916612625122, -0.3761261999607086, 0.11283379048109055, -0.026834335178136826, 0.005113156978040934,
  -0.0006737582152709365,
];

/** log2(1 - erf(x)) on [3/4, 4], near-minimax for the absolute error of erf (2^-28.4), fitted likewise. */
const farCoefficients = [
  -4.2339997889939696e-5, -1.6279300451278687, -0.9174335598945618, -0.1516120731830597, 0.03290393203496933,
  -0.0046082851476967335, 0.0003056549176108092,
];

/** (2^r - 1) / r on |r| <= 1/2, near-minimax for 2^r (2^-28.3), fitted likewise. */
const powerCoefficients = [
  0.6931471824645996, 0.24022647738456726, 0.05550359934568405, 0.009618505835533142, 0.0013390806270763278,
  0.0001532646274426952,
];

/**
 * x + x p(x^2) near 0; elsewhere 1 - 2^g(|x|), which is at most 0.3, so that errors of g and of the power show less. A
 * polynomial g costs less than the quotient that the tail of `gelu` needs, and leaves nothing of x^2 to be exact.
 */
export function erf(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  // Beyond this erf rounds to 1.
  const limit = f.let(f32x4.const(4));
  const border = f.let(f32x4.const(0.75));
  const bias = f.let(f32x4.const(roundingBias + 127));
  const near = tree(f, nearCoefficients);
  const far = tree(f, farCoefficients);
  const power = tree(f, powerCoefficients);
  return (argument) => {
    const x = f.let(argument);
    const small = f.multiplyAdd(x, near(f.let(f32x4.mul(x, x))), x);
    const magnitude = f.let(f32x4.abs(x));
    const exponent = f.let(far(f.let(f32x4.pmin(magnitude, limit))));
    // The low bits hold n + 127: shifted to their place they are 2^n.
    const biased = f.let(f32x4.add(exponent, bias));
    const r = f.let(f32x4.sub(exponent, f32x4.sub(biased, bias)));
    const mantissa = f.multiplyAdd(r, power(r), one);
    const large = v128.or(f.multiplySubtract(mantissa, i32x4.shl(biased, 23), one), v128.and(x, sign));
    return f.let(f.choose(small, large, f32x4.lt(magnitude, border)));
  };
}
