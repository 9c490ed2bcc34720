import { wgsl } from "../../program/index.js";
import type { MathFunction } from "./math-function.js";

/** The power of two numbers; see `pairFunctions`. */
export const powerFunctions: Readonly<Record<"power", MathFunction>> = {
  /**
   * a^b, in the sense of C's pow. For whole exponents up to 15 it is a product, which is exact if all of it
   * fits (3^15 does). Otherwise it is e^(b log |a|), with the logarithm and its product with b as sums of two
   * numbers, since an error of the exponent leads to a proportional error of the result.
   */
  power: {
    uses: [
      "split_exponent",
      "less_logarithms",
      "exponential_near_zero",
      "power_of_two",
      "from_bits",
      "is_nan",
      "upper_half",
      "settled",
    ],
    source: wgsl`
fn power(a: f32, b: f32) -> f32 {
  if ((bitcast<u32>(b) << 1u) == 0u) { return 1.0; }
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  let whole = abs(b) >= 8388608.0 || floor(b) == b;
  if (whole && abs(b) <= 15.0) {
    let product = power_of_whole(a, u32(abs(b)));
    if (b > 0.0) { return product; }
    // Where the product is near an end of the range, its reciprocal would not be.
    if (abs(product) > 1e-30 && abs(product) < 1e30) { return 1.0 / product; }
  }
  let odd = whole && abs(b) < 16777216.0 && fract(b * 0.5) != 0.0;
  let negative = bitcast<u32>(a) >= 0x80000000u;
  let sign = select(0u, 0x80000000u, negative && odd);
  let size = bitcast<u32>(a) & 0x7fffffffu;
  if (size == 0u || size == 0x7f800000u) {
    return from_bits(sign | select(0u, 0x7f800000u, (size == 0u) == (b < 0.0)));
  }
  if (negative && !whole) { return from_bits(0x7fc00000u); }
  return from_bits(sign | bitcast<u32>(power_of_positive(size, clamp(b, -4294967296.0, 4294967296.0))));
}

fn power_of_whole(a: f32, exponent: u32) -> f32 {
  var result = 1.0;
  var square = a;
  for (var rest = exponent; rest != 0u; rest >>= 1u) {
    if ((rest & 1u) == 1u) { result *= square; }
    square *= square;
  }
  return result;
}

/// a^b for the finite a > 0 of these bits; a b beyond 2^32 does what 2^32 does.
fn power_of_positive(bits: u32, b: f32) -> f32 {
  // Subnormal numbers are their bits, times 2^-149.
  let subnormal = bits < 0x00800000u;
  let parts = split_exponent(select(bitcast<f32>(bits), f32(bits), subnormal));
  let n = parts.x + select(0.0, -149.0, subnormal);
  // log m = 2 s + 2/3 s^3 + ..., s = (m - 1) / (m + 1), which is s_high + s_low.
  let f = parts.y;
  let m = 1.0 + f;
  let s = f / (m + 1.0);
  let s_high = upper_half(s);
  let divisor = upper_half(m + 1.0);
  let s_low = (settled(f - s_high * divisor) - s_high * (m - settled(divisor - 1.0))) / (m + 1.0);
  let z = s * s;
  let tail = z * fma(z, fma(z, fma(z, fma(z, 0.195922047, 0.221756667), 0.285721213), 0.399999946), 0.666666687);
  let high = 2.0 * s_high;
  let low = fma(s, tail, 2.0 * s_low);
  let estimate = b * fma(n, 0.693147181, high + low);
  if (estimate > 89.0) { return from_bits(0x7f800000u); }
  if (estimate < -104.5) { return 0.0; }
  // b log a = (steps + over) log 2 + b high + b low. Products of halves are exact.
  let b_high = upper_half(b);
  let b_low = b - b_high;
  let steps = round(b * n);
  let over = settled(b_high * n - steps) + b_low * n;
  let exponent = b_high * high;
  let rest = fma(over, 0.693147181, fma(b, low, b_low * high));
  let k = round((exponent + rest) * 1.44269504);
  let r = settled(less_logarithms(exponent, k)) + rest;
  let total = clamp(i32(k) + i32(steps), -252, 254);
  let first = total >> 1u;
  return (exponential_near_zero(r) + 1.0) * power_of_two(first) * power_of_two(total - first);
}`,
  },
};
