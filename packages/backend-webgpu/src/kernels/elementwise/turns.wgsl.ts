import { wgsl } from "../../program/index.js";
import type { MathFunction } from "./math-function.js";

/** From an angle to the quarter turns in it and the rest, and to its sine. They use those of `math.wgsl.ts`. */
export const turnFunctions: Readonly<
  Record<"quarter_turns" | "far_quarter_turns" | "sine_of_parts", MathFunction>
> = {
  /**
   * x = q pi/2 + r with |r| <= pi/4; turns is q mod 4. pi/2 is the sum of four parts of few bits: for q
   * below 2^12 the products with the first three are exact, and so are the first two differences.
   */
  quarter_turns: {
    uses: ["far_quarter_turns", "nearest", "settled"],
    source: wgsl`
fn quarter_turns(x: f32) -> QuarterTurns {
  if ((bitcast<u32>(x) & 0x7fffffffu) > 0x45bb8000u) { return far_quarter_turns(x); } // beyond 6000
  let q = nearest(x, 0.636619772);
  let coarse = settled(fma(q.number, 4.41074371e-6, settled(fma(q.number, -1.57080078, x))));
  let r = fma(q.number, -2.56334407e-12, settled(fma(q.number, 4.37139533e-8, coarse)));
  return QuarterTurns(r, q.bits);
}`,
  },

  /**
   * The same in whole numbers for any |x| from 6000 on: x is a multiple of a power of two, and x / 2 pi needs
   * only those bits of 1 / 2 pi that lead neither to whole turns nor to less than 2^-64 of one. M. Payne and
   * R. Hanek, Radian reduction for trigonometric functions, SIGNUM Newsletter 18, 1983. No f32 comes closer
   * to a multiple of pi/2 than 2^-31 or so, so that at least 30 bits of r remain.
   */
  far_quarter_turns: {
    uses: ["from_bits", "power_of_two", "upper_half"],
    source: wgsl`
/// The upper half of a product of 64 bits.
fn multiply_high(a: u32, b: u32) -> u32 {
  let low = (a & 0xffffu) * (b & 0xffffu);
  let left = (a >> 16u) * (b & 0xffffu);
  let right = (a & 0xffffu) * (b >> 16u);
  let middle = (low >> 16u) + (left & 0xffffu) + (right & 0xffffu);
  return (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u) + (middle >> 16u);
}

/// Bits 32 (place - 1) to 32 (place + 3) behind the binary point of 1 / 2 pi.
fn bits_of_turn(place: u32) -> vec4<u32> {
  switch place {
    case 0u: { return vec4<u32>(0u, 0x28be60dbu, 0x9391054au, 0x7f09d5f4u); }
    case 1u: { return vec4<u32>(0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u); }
    case 2u: { return vec4<u32>(0x9391054au, 0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u); }
    case 3u: { return vec4<u32>(0x7f09d5f4u, 0x7d4d3770u, 0x36d8a566u, 0x4f10e410u); }
    default: { return vec4<u32>(0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau); }
  }
}

struct QuarterTurns { rest: f32, turns: u32 }

fn far_quarter_turns(x: f32) -> QuarterTurns {
  let bits = bitcast<u32>(x);
  let exponent = (bits >> 23u) & 0xffu;
  if (exponent == 0xffu) { return QuarterTurns(from_bits(0x7fc00000u), 0u); }
  // |x| = significand 2^(exponent - 150). What bits in front of the window give are whole turns.
  let significand = (bits & 0x7fffffu) | 0x800000u;
  let skipped = exponent - 118u;
  let words = bits_of_turn(skipped >> 5u);
  let shift = skipped & 31u;
  let window = (words.xyz << vec3<u32>(shift)) | ((words.yzw >> vec3<u32>(1u)) >> vec3<u32>(31u - shift));
  // 2^64 times the fraction of a turn, as two words.
  let middle = significand * window.y;
  var low = middle + multiply_high(significand, window.z);
  var high = significand * window.x + multiply_high(significand, window.y) + select(0u, 1u, low < middle);
  // To the nearest quarter; the rest, of either sign, is normalized.
  var quarter = (high + 0x20000000u) >> 30u;
  high -= quarter << 30u;
  var negative = high >= 0x80000000u;
  if (negative) {
    high = ~high + select(0u, 1u, low == 0u);
    low = 0u - low;
  }
  var zeros = countLeadingZeros(high);
  if (zeros == 32u) {
    high = low;
    low = 0u;
    zeros += countLeadingZeros(high);
  }
  let more = zeros & 31u;
  let top = (high << more) | ((low >> 1u) >> (31u - more));
  let turn = f32((top >> 8u) + ((top >> 7u) & 1u)) * power_of_two(-24 - i32(zeros));
  // 2 pi is the sum of two parts, of which the first has few bits.
  let upper = upper_half(turn);
  let size = fma(upper, 6.28125, fma(upper, 0.00193530718, (turn - upper) * 6.28318531));
  if (bits >= 0x80000000u) {
    negative = !negative;
    quarter = 0u - quarter;
  }
  return QuarterTurns(select(size, -size, negative), quarter);
}`,
  },

  /** sin(r + turns pi/2) */
  sine_of_parts: {
    source: wgsl`
fn sine_of_parts(r: f32, turns: u32) -> f32 {
  let z = r * r;
  let sine = fma(r * z, fma(z, fma(z, -0.000195172717, 0.008332178), -0.166666552), r);
  let cosine = fma(z * z, fma(z, fma(z, 2.4438421e-5, -0.00138873677), 0.0416666456), fma(z, -0.5, 1.0));
  let result = select(sine, cosine, (turns & 1u) == 1u);
  return select(result, -result, (turns & 2u) == 2u);
}`,
  },
};
