import { type FunctionBuilder, f32x4, f64x2, i32x4, v128 } from "../../wasm/index.js";
import { demote, promote, sharedConstants, type Vector, type VectorLocal } from "../math/index.js";

type Pairwise = (a: Vector, b: Vector) => Vector;

/**
 * |a| less |b| trunc(|a| / |b|), exactly, in f64: while the rest is not below the divisor, subtracts the product of the
 * divisor with the first 26 bits of the quotient. That has 50 bits, and the difference is a multiple of both last
 * places and 2^25 times smaller than the rest, so both are exact. One round for quotients below 2^26, at most twelve.
 */
function restOfSizes(f: FunctionBuilder): (a: VectorLocal, b: VectorLocal) => VectorLocal {
  const first26 = f.let(i32x4.const(0xf8000000 | 0, -1, 0xf8000000 | 0, -1));
  const zero = f.let(f64x2.const(0));
  const infinity = f.let(f64x2.const(Number.POSITIVE_INFINITY));
  const nan = f.let(f64x2.const(Number.NaN));
  const more = f.local("v128");
  return (a, b) => {
    const rest = f.let(a);
    // Neither is NaN.
    const isDefined = f.let(v128.and(f64x2.lt(a, infinity), f64x2.gt(b, zero)));
    const isOpen = (): Vector => v128.and(isDefined, f64x2.ge(rest, b));
    f.set(more, isOpen());
    f.while(v128.anyTrue(more), () => {
      const quotient = f64x2.trunc(v128.and(f64x2.div(rest, b), first26));
      f.set(rest, f.choose(f64x2.sub(rest, f64x2.mul(quotient, b)), rest, more));
      f.set(more, isOpen());
    });
    return f.let(f.choose(rest, nan, isDefined));
  };
}

/** a - b trunc(a / b), exact, with the sign of a; NaN if a is infinite or b is 0. */
export function remainder(f: FunctionBuilder): Pairwise {
  const { sign } = sharedConstants(f);
  const rest = restOfSizes(f);
  return (dividend, divisor) => {
    const a = f.let(dividend);
    const dividends = promote(f, f.let(f32x4.abs(a)));
    const divisors = promote(f, f.let(f32x4.abs(divisor)));
    const size = demote(rest(dividends[0], divisors[0]), rest(dividends[1], divisors[1]));
    return f.let(v128.or(size, v128.and(a, sign)));
  };
}

/** a - b floor(a / b), with the sign of b: the remainder, or the remainder plus b. */
export function modulo(f: FunctionBuilder): Pairwise {
  const { zero, sign } = sharedConstants(f);
  const remainderOf = remainder(f);
  return (dividend, divisor) => {
    const a = f.let(dividend);
    const b = f.let(divisor);
    const rest = f.let(remainderOf(a, b));
    const differ = i32x4.shrS(v128.xor(a, b), 31);
    const sum = f32x4.add(rest, v128.and(b, differ));
    return f.let(f.choose(v128.and(b, sign), sum, f32x4.eq(rest, zero)));
  };
}

/** floor(a / b). In f64 the quotient of two f32 is whole only if it is exactly so. */
export function flooredQuotient(f: FunctionBuilder): Pairwise {
  return (dividend, divisor) => {
    const [low, high] = promote(f, f.let(dividend));
    const [lowDivisor, highDivisor] = promote(f, f.let(divisor));
    return demote(f64x2.floor(f64x2.div(low, lowDivisor)), f64x2.floor(f64x2.div(high, highDivisor)));
  };
}
