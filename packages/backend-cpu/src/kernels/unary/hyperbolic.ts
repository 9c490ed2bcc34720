import { type FunctionBuilder, f32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import {
  exponential,
  finiteLogarithmOfOnePlus,
  logarithm,
  logarithmOfOnePlus,
  normalLimit,
  scaledExponential,
  sharedConstants,
  unlessAny,
  type Vector,
} from "../math/index.js";
import { exponentialLessOne } from "./logistic.js";

/** (m + m / (m + 1)) / 2 with m = e^|x| - 1, in which nothing cancels; e^|x| / 2 where e^|x| may overflow. */
export function hyperbolicSine(f: FunctionBuilder): VectorFunction {
  const { half, one, sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(normalLimit));
  const lessOne = exponentialLessOne(f);
  return (argument) => {
    const x = f.let(argument);
    const size = f.let(f32x4.abs(x));
    const usual = (): Vector => {
      const m = f.let(lessOne(size));
      return f32x4.mul(half, f32x4.add(m, f32x4.div(m, f32x4.add(m, one))));
    };
    const withLarge = (): Vector => {
      const { mantissa, scale } = scaledExponential(f)(size);
      return f.choose(f32x4.mul(f32x4.mul(half, mantissa), scale), usual(), f32x4.gt(size, limit));
    };
    return f.let(v128.or(unlessAny(f, f32x4.gt(size, limit), usual, withLarge), v128.and(x, sign)));
  };
}

/** (e^|x| + e^-|x|) / 2 */
export function hyperbolicCosine(f: FunctionBuilder): VectorFunction {
  const { half } = sharedConstants(f);
  const limit = f.let(f32x4.const(normalLimit));
  const e = exponential(f);
  return (argument) => {
    const size = f.let(f32x4.abs(argument));
    const usual = (): Vector => {
      const power = f.let(e(size));
      return f32x4.add(f32x4.mul(half, power), f32x4.div(half, power));
    };
    const withLarge = (): Vector => {
      const { mantissa, scale } = scaledExponential(f)(size);
      return f.choose(f32x4.mul(f32x4.mul(half, mantissa), scale), usual(), f32x4.gt(size, limit));
    };
    return unlessAny(f, f32x4.gt(size, limit), usual, withLarge);
  };
}

/** From here on x^2 is so large that sqrt(x^2 + 1) or sqrt(x^2 - 1) is x, and the result ln(2 x). */
const largeArea = 8192;

/** ln(2 x), without overflow. */
function logarithmOfTwice(f: FunctionBuilder, x: Vector): Vector {
  return f32x4.add(logarithm(f)(x), f32x4.const(Math.LN2));
}

/** ln(1 + |x| + x^2 / (1 + sqrt(1 + x^2))), in which nothing cancels. */
export function areaSine(f: FunctionBuilder): VectorFunction {
  const { one, sign } = sharedConstants(f);
  const limit = f.let(f32x4.const(largeArea));
  const log1p = finiteLogarithmOfOnePlus(f);
  return (argument) => {
    const x = f.let(argument);
    const size = f.let(f32x4.abs(x));
    const usual = (): Vector => {
      const square = f.let(f32x4.mul(size, size));
      const root = f32x4.sqrt(f32x4.add(square, one));
      return log1p(f32x4.add(size, f32x4.div(square, f32x4.add(root, one))));
    };
    const withLarge = (): Vector => f.choose(logarithmOfTwice(f, size), usual(), f32x4.gt(size, limit));
    return f.let(v128.or(unlessAny(f, f32x4.gt(size, limit), usual, withLarge), v128.and(x, sign)));
  };
}

/** ln(1 + t + sqrt(2 t + t^2)) with t = x - 1; NaN for x < 1. */
export function areaCosine(f: FunctionBuilder): VectorFunction {
  const { one, zero } = sharedConstants(f);
  const limit = f.let(f32x4.const(largeArea));
  const two = f.let(f32x4.const(2));
  const nan = f.let(f32x4.const(Number.NaN));
  const log1p = finiteLogarithmOfOnePlus(f);
  return (argument) => {
    const x = f.let(argument);
    const usual = (): Vector => {
      const t = f.let(f32x4.sub(x, one));
      return log1p(f32x4.add(t, f32x4.sqrt(f32x4.mul(t, f32x4.add(t, two)))));
    };
    const withLarge = (): Vector => f.choose(logarithmOfTwice(f, x), usual(), f32x4.gt(x, limit));
    const result = unlessAny(f, f32x4.gt(x, limit), usual, withLarge);
    return f.let(f.choose(nan, result, f32x4.lt(f32x4.sub(x, one), zero)));
  };
}

/** ln(1 + 2 |x| / (1 - |x|)) / 2; NaN for |x| > 1. */
export function areaTangent(f: FunctionBuilder): VectorFunction {
  const { half, one, sign } = sharedConstants(f);
  const log1p = logarithmOfOnePlus(f);
  return (argument) => {
    const x = f.let(argument);
    const size = f.let(f32x4.abs(x));
    const ratio = f32x4.div(f32x4.add(size, size), f32x4.sub(one, size));
    return f.let(v128.or(f32x4.mul(half, log1p(ratio)), v128.and(x, sign)));
  };
}
