import type { IntegerType } from "@backplane/core";
import { type FunctionBuilder, f64x2, i32x4, shuffle32, v128 } from "../../wasm/index.js";
import { roundingBias64, type Vector } from "../math/index.js";

const toDouble = { i32: f64x2.convertLowI32x4S, u32: f64x2.convertLowI32x4U } as const;

type Pairwise = (a: Vector, b: Vector) => Vector;

/**
 * a / b without its fraction, or rounded down; 0 if b is 0; -2^31 / -1 wraps around to -2^31. WebAssembly has no
 * division of integer vectors, and its scalar one traps on these two.
 *
 * Computed in f64, which is exact: a quotient that is not whole is at least 1 / |b| from the nearest whole
 * number, and is rounded by at most 2^-21 / |b|, because it is less than 2^32 / |b|. Adding the bias puts the
 * whole part, as an integer that wraps around, into the low bits. Those of infinities and of the NaN that
 * WebAssembly makes from numbers, 0 / 0, are 0.
 */
export function division(
  type: IntegerType,
  rounding: "trunc" | "floor" = "trunc",
): (f: FunctionBuilder) => Pairwise {
  return (f) => {
    const bias = f.let(f64x2.const(roundingBias64));
    const quotients = (a: Vector, b: Vector): Vector =>
      f64x2.add(f64x2[rounding](f64x2.div(toDouble[type](a), toDouble[type](b))), bias);
    return (dividends, divisors) => {
      const a = f.let(dividends);
      const b = f.let(divisors);
      const high = quotients(shuffle32([2, 3, 2, 3], a, a), shuffle32([2, 3, 2, 3], b, b));
      return shuffle32([0, 2, 4, 6], quotients(a, b), high);
    };
  };
}

/** a - b times that quotient; 0 if b is 0. */
export function integerRemainder(
  type: IntegerType,
  rounding: "trunc" | "floor",
): (f: FunctionBuilder) => Pairwise {
  return (f) => {
    const divide = division(type, rounding)(f);
    const zero = f.let(i32x4.const(0));
    return (dividends, divisors) => {
      const a = f.let(dividends);
      const b = f.let(divisors);
      return v128.andnot(i32x4.sub(a, i32x4.mul(divide(a, b), b)), i32x4.eq(b, zero));
    };
  };
}
