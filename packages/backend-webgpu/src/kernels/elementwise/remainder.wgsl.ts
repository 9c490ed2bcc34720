import { wgsl } from "../../program/index.js";
import type { MathFunction } from "./math-function.js";

/** Division with a rest, which is exact; see `pairFunctions`. */
export const remainderFunctions: Readonly<
  Record<"quotient" | "long_division" | "remainder" | "floored_remainder" | "floored_quotient", MathFunction>
> = {
  /** a / b; WGSL promises an accurate quotient only for divisors up to 2^126 */
  quotient: {
    source: wgsl`
fn quotient(a: f32, b: f32) -> f32 {
  return select(a / b, (0.25 * a) / (0.25 * b), abs(b) > 4.25352959e37);
}`,
  },

  /**
   * Of |a| / |b| by their bits, b neither 0 nor infinite nor NaN, a finite: the rest, as a multiple of the last place
   * of b, and the whole part, if it is below 2^32. Eight bits a step, at most 35.
   */
  long_division: {
    source: wgsl`
struct LongDivision { rest: u32, whole: u32 }

fn significand(bits: u32) -> u32 {
  return select((bits & 0x7fffffu) | 0x800000u, bits, bits < 0x800000u);
}

fn long_division(a: u32, b: u32) -> LongDivision {
  let divisor = significand(b);
  let significand_a = significand(a);
  var whole = significand_a / divisor;
  var rest = significand_a - whole * divisor;
  var steps = max(a >> 23u, 1u) - max(b >> 23u, 1u);
  while (steps > 0u) {
    let step = min(steps, 8u);
    let next = (rest << step) / divisor;
    rest = (rest << step) - next * divisor;
    whole = (whole << step) | next;
    steps -= step;
  }
  return LongDivision(rest, whole);
}`,
  },

  /** a - b trunc(a / b) */
  remainder: {
    uses: ["long_division", "from_bits"],
    source: wgsl`
fn remainder(a: f32, b: f32) -> f32 {
  let size = bitcast<u32>(a) & 0x7fffffffu;
  let divisor = bitcast<u32>(b) & 0x7fffffffu;
  if (size >= 0x7f800000u || divisor - 1u >= 0x7f800000u) { return from_bits(0x7fc00000u); }
  if (size < divisor) { return a; }
  let rest = long_division(size, divisor).rest;
  let sign = bitcast<u32>(a) & 0x80000000u;
  if (rest == 0u) { return from_bits(sign); }
  // As many places to the left as make it normal, if there are so many.
  let exponent = max(divisor >> 23u, 1u) - 1u;
  let places = min(countLeadingZeros(rest) - 8u, exponent);
  return from_bits(sign | (((exponent - places) << 23u) + (rest << places)));
}`,
  },

  /** a - b floor(a / b), with the sign of b */
  floored_remainder: {
    uses: ["remainder", "settled"],
    source: wgsl`
fn floored_remainder(a: f32, b: f32) -> f32 {
  let rest = remainder(a, b);
  if ((bitcast<u32>(rest) << 1u) == 0u) { return from_bits(bitcast<u32>(b) & 0x80000000u); }
  if ((bitcast<u32>(a) ^ bitcast<u32>(b)) < 0x80000000u) { return rest; }
  let size = bitcast<u32>(rest) & 0x7fffffffu;
  if (size >= 0x00800000u || abs(b) > 9.09494702e-13) { return rest + b; }
  // A subnormal number is its bits, times 2^-149, even where arithmetic would flush it.
  let sum = settled(b * 1.2676506e30) * 5.62949953e14 + select(f32(size), -f32(size), b > 0.0);
  return settled(sum * 7.88860905e-31) * 1.77635684e-15;
}`,
  },

  /** floor(a / b), exact below 2^24, where an error of the quotient would lead to another whole number */
  floored_quotient: {
    uses: ["quotient", "long_division", "from_bits"],
    source: wgsl`
fn floored_quotient(a: f32, b: f32) -> f32 {
  let estimate = quotient(a, b);
  let size = bitcast<u32>(a) & 0x7fffffffu;
  let divisor = bitcast<u32>(b) & 0x7fffffffu;
  if (!(abs(estimate) < 16777216.0) || size == 0u || divisor - 1u >= 0x7f7fffffu) { return estimate; }
  var division = LongDivision(size, 0u);
  if (size >= divisor) { division = long_division(size, divisor); }
  let whole = f32(division.whole);
  if ((bitcast<u32>(a) ^ bitcast<u32>(b)) < 0x80000000u) { return whole; }
  return -whole - select(0.0, 1.0, division.rest != 0u);
}`,
  },
};
