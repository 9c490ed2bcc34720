import { wgsl } from "../../program/index.js";
import type { MathFunction } from "./math-function.js";

/** Angles, and logarithms and exponentials near 1. They use those of `math.wgsl.ts`. */
export const arcFunctions: Readonly<
  Record<
    "angle" | "arc_tail" | "exponential_less_one" | "half_exponential" | "shifted_logarithm",
    MathFunction
  >
> = {
  /**
   * The angle of the point (b, a). One division leads to at most a quarter of a right angle: a / b, (a - b) / (a + b)
   * or -b / a. On the left side the angle is pi less the one on the right.
   */
  angle: {
    uses: ["is_nan", "from_bits", "settled"],
    source: wgsl`
fn angle(y: f32, x: f32) -> f32 {
  if (is_nan(x) || is_nan(y)) { return from_bits(0x7fc00000u); }
  let y_bits = bitcast<u32>(y) & 0x7fffffffu;
  let x_bits = bitcast<u32>(x) & 0x7fffffffu;
  let larger = max(y_bits, x_bits);
  // So that neither a sum overflows nor a difference loses bits; what underflows does not show.
  let scale = select(select(1.0, 1.07374182e9, larger < 0x0d800000u), 9.31322575e-10, larger > 0x71800000u);
  let a = settled(abs(y) * scale);
  let b = settled(abs(x) * scale);
  let near = y_bits == 0u || a < b * 0.414213562;
  let far = a > b * 2.41421356;
  let below = select(select(a + b, a, far), b, near);
  let above = select(select(a - b, -b, far), a, near);
  // Of two zeros there is no quotient, and with an infinity it is 0, as it is of equal numbers.
  var t = 0.0;
  if (y_bits != x_bits && larger < 0x7f800000u) { t = above / below; }
  var high = select(select(0.785398185, 1.57079637, far), 0.0, near);
  var low = select(select(-2.18556941e-8, -4.37113883e-8, far), 0.0, near);
  if (bitcast<u32>(x) >= 0x80000000u) {
    t = -t;
    high = select(select(2.3561945, 1.57079637, far), 3.14159274, near);
    low = select(select(-5.96244032e-9, -4.37113883e-8, far), -8.74227766e-8, near);
  }
  let z = t * t;
  let tail = fma(z, fma(z, fma(z, fma(z, -0.0608915165, 0.105989434), -0.142443776), 0.199985281), -0.333333164);
  let result = high + (t + fma(t * z, tail, low));
  return bitcast<f32>((bitcast<u32>(result) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}`,
  },

  /** arcsin(s) / s - 1 for z = s^2 <= 1/4 */
  arc_tail: {
    source: wgsl`
fn arc_tail(z: f32) -> f32 {
  return z * fma(z, fma(z, fma(z, fma(z, fma(z, 0.0376731195, 0.0143291904), 0.0318360552), 0.0445136353), 0.0750052109), 0.166666597);
}`,
  },

  /** 2^n (e^r - 1) + (2^n - 1), in which nothing cancels; from 20 on the 1 is less than half a unit. */
  exponential_less_one: {
    uses: ["exponential", "nearest", "less_logarithms", "exponential_near_zero", "power_of_two", "settled"],
    source: wgsl`
fn exponential_less_one(x: f32) -> f32 {
  if (x > 20.0) { return exponential(x); }
  let bounded = max(x, -20.0); // where the result is -1
  let n = nearest(bounded, 1.44269504);
  let scale = bitcast<f32>((n.bits << 23u) + 0x3f800000u);
  let small = exponential_near_zero(less_logarithms(bounded, n.number));
  // The sign is lost for -0 only.
  return bitcast<f32>(bitcast<u32>(fma(scale, small, settled(scale - 1.0))) | (bitcast<u32>(x) & 0x80000000u));
}`,
  },

  /** e^x / 2 for x >= 0, even where e^x overflows */
  half_exponential: {
    uses: ["nearest", "less_logarithms", "exponential_near_zero", "power_of_two"],
    source: wgsl`
fn half_exponential(x: f32) -> f32 {
  let bounded = min(x, 90.0); // past the largest number
  let n = nearest(bounded, 1.44269504);
  let scaled = exponential_near_zero(less_logarithms(bounded, n.number)) + 1.0;
  let whole = bitcast<i32>(n.bits) - 0x4b400000 - 1;
  let first = whole >> 1u;
  return scaled * power_of_two(first) * power_of_two(whole - first);
}`,
  },

  /** log(1 + t) for any t, accurate near 0; of the rounded sum, and what it lost */
  shifted_logarithm: {
    uses: ["logarithm", "log_near_one", "settled"],
    source: wgsl`
fn shifted_logarithm(t: f32) -> f32 {
  if (abs(t) < 0.29) { return bitcast<f32>(bitcast<u32>(log_near_one(t)) | (bitcast<u32>(t) & 0x80000000u)); }
  let sum = 1.0 + t;
  if (!(t > -1.0 && t < 1e8)) { return logarithm(sum); }
  return logarithm(sum) + (t - settled(sum - 1.0)) / sum;
}`,
  },
};
