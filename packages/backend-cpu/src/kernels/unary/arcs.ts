import { type FunctionBuilder, f32x4, i32x4, type VectorFunction, v128 } from "../../wasm/index.js";
import { polynomial, sharedConstants, type Vector, type VectorLocal } from "../math/index.js";

/** (arcsin(s) / s - 1) / s^2 in powers of s^2, minimax for |s| <= 1/2 (2^-31.6), fitted as those of the logarithm. */
const coefficients = [
  0.16666659712791443, 0.07500521093606949, 0.04451363533735275, 0.03183605521917343, 0.014329190365970135,
  0.03767311945557594,
];

const [halfPi, pi] = [Math.fround(Math.PI / 2), Math.fround(Math.PI)];

interface Reduced {
  readonly isLarge: VectorLocal;
  /** |x|, or sqrt((1 - |x|) / 2) if |x| is above 1/2: then arcsin |x| is pi / 2 less twice the arcsin of it. */
  readonly s: VectorLocal;
  /** arcsin(s) / s - 1 */
  readonly tail: VectorLocal;
}

function reduction(f: FunctionBuilder): (x: VectorLocal) => Reduced {
  const { half } = sharedConstants(f);
  const p = polynomial(f, coefficients);
  return (x) => {
    const size = f.let(f32x4.abs(x));
    const isLarge = f.let(f32x4.gt(size, half));
    const z = f.let(f.choose(f32x4.sub(half, f32x4.mul(half, size)), f32x4.mul(size, size), isLarge));
    const s = f.let(f.choose(f32x4.sqrt(z), size, isLarge));
    return { isLarge, s, tail: f.let(f32x4.mul(z, p(z))) };
  };
}

/** high + (term + (term tail + low)), the sum of the parts of an angle. */
function angle(f: FunctionBuilder, high: Vector, low: Vector, term: VectorLocal, tail: Vector): Vector {
  return f32x4.add(high, f32x4.add(term, f.multiplyAdd(term, tail, low)));
}

/** arcsin(x); NaN for |x| > 1. */
export function arcsine(f: FunctionBuilder): VectorFunction {
  const { sign } = sharedConstants(f);
  const reduce = reduction(f);
  const minusTwo = f.let(f32x4.const(-2));
  const high = f.let(f32x4.const(halfPi));
  const low = f.let(f32x4.const(Math.PI / 2 - halfPi));
  return (argument) => {
    const x = f.let(argument);
    const { isLarge, s, tail } = reduce(x);
    const term = f.let(f.choose(f32x4.mul(minusTwo, s), s, isLarge));
    const size = angle(f, v128.and(high, isLarge), v128.and(low, isLarge), term, tail);
    return f.let(v128.or(size, v128.and(x, sign)));
  };
}

/** arccos(x); NaN for |x| > 1. */
export function arccosine(f: FunctionBuilder): VectorFunction {
  const { sign } = sharedConstants(f);
  const reduce = reduction(f);
  const two = f.let(f32x4.const(2));
  const [halfHigh, halfLow] = [f.let(f32x4.const(halfPi)), f.let(f32x4.const(Math.PI / 2 - halfPi))];
  const [wholeHigh, wholeLow] = [f.let(f32x4.const(pi)), f.let(f32x4.const(Math.PI - pi))];
  return (argument) => {
    const x = f.let(argument);
    const { isLarge, s, tail } = reduce(x);
    const left = f.let(i32x4.shrS(x, 31));
    // pi / 2 - x, or 2 arcsin(s) on the right side, or pi less that on the left.
    const turned = v128.xor(f32x4.mul(two, s), v128.and(x, sign));
    const term = f.let(f.choose(turned, v128.xor(x, sign), isLarge));
    const high = f.choose(v128.and(wholeHigh, left), halfHigh, isLarge);
    const low = f.choose(v128.and(wholeLow, left), halfLow, isLarge);
    return f.let(angle(f, high, low, term, tail));
  };
}
