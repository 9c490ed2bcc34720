import { wgsl } from "../../program/index.js";
import type { MathFunction, MathFunctionName, MathFunctions } from "./math-function.js";

/**
 * Elementary functions for one f32. WGSL's own have wide tolerances (exp may be off by 3 + 2|x| units in the
 * last place, sin by 2^-11, and only within [-pi, pi]), and WGSL says nothing about arguments at which a
 * formula overflows. These are within a few units and right at both ends.
 *
 * All coefficients are minimax fits made for this file by iterated least squares (Lawson's method) against
 * values of 40 digits, in the reduced range given beside them. The reductions are classical: W. J. Cody and
 * W. Waite, Software Manual for the Elementary Functions, 1980.
 */
const functions: MathFunctions = {
  /** Infinity and NaN by their bits; as constants, WGSL refuses them. */
  from_bits: {
    source: wgsl`
fn from_bits(bits: u32) -> f32 {
  var run_time = bits;
  return bitcast<f32>(run_time);
}`,
  },

  /** 2^n for -126 <= n <= 127 */
  power_of_two: {
    source: wgsl`
fn power_of_two(n: i32) -> f32 {
  return bitcast<f32>(u32(n + 127) << 23u);
}`,
  },

  /** Whether these are the bits of a NaN; a comparison of numbers may be taken for always true. */
  is_nan: {
    source: wgsl`
fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}`,
  },

  /** A whole number that orders numbers as they are, -0 below 0 */
  rank: {
    source: wgsl`
fn rank(x: f32) -> i32 {
  let bits = bitcast<i32>(x);
  return bits ^ bitcast<i32>(bitcast<u32>(bits >> 31u) >> 1u);
}`,
  },

  /** As rank, but 0 for -0 */
  ordinal: {
    source: wgsl`
fn ordinal(x: f32) -> i32 {
  let size = bitcast<i32>(x) & 0x7fffffff;
  return select(size, -size, bitcast<i32>(x) < 0);
}`,
  },

  /** A result of x, or x itself if that is NaN, which bounds such as max(x, 0) would lose. */
  or_nan: {
    uses: ["is_nan"],
    source: wgsl`
fn or_nan(x: f32, result: f32) -> f32 {
  return select(result, x, is_nan(x));
}`,
  },

  /**
   * x, which is below 3e38. WGSL lets compilers reassociate: (x - n a) - n b, which is exact step by step,
   * may become x - n (a + b), which is not, and Mesa does that. The bound hides this from them.
   */
  settled: {
    source: wgsl`
fn settled(x: f32) -> f32 {
  return min(x, 3e38);
}`,
  },

  /** e^r - 1 for |r| <= log(2) / 2, and a little beyond */
  exponential_near_zero: {
    source: wgsl`
fn exponential_near_zero(r: f32) -> f32 {
  let tail = fma(r, fma(r, fma(r, fma(r, fma(r, 0.000197903544, 0.0013944651), 0.00833349675), 0.0416662954), 0.166666657), 0.5);
  return fma(r * r, tail, r);
}`,
  },

  /**
   * The whole number nearest to x factor, for |x factor| < 2^21, as a number and as the last bits of a word:
   * in 1.5 2^23 + n, the last bits are n. This avoids conversions between numbers and whole numbers, which
   * are among the slowest instructions of GPUs. (If an adapter does not round to nearest, it is a neighbour,
   * and polynomials after it are a few units less accurate.)
   */
  nearest: {
    uses: ["settled"],
    source: wgsl`
struct Nearest { number: f32, bits: u32 }

fn nearest(x: f32, factor: f32) -> Nearest {
  let shifted = settled(fma(x, factor, 12582912.0));
  return Nearest(shifted - 12582912.0, bitcast<u32>(shifted));
}`,
  },

  /** x - n log 2, for the n nearest to x / log 2 */
  less_logarithms: {
    uses: ["settled"],
    source: wgsl`
fn less_logarithms(x: f32, n: f32) -> f32 {
  // The first part of log 2 has 16 bits, so that its product with n is exact.
  return fma(n, -1.42860682e-6, settled(fma(n, -0.693145752, x)));
}`,
  },

  /**
   * e^(x + more) 2^63 = 2^(n + 63) e^r, n = round(x / log 2), r = x + more - n log 2, for -112 <= x <= 0 and
   * |more| < 0.11. With this scale no intermediate number underflows unless the product with 2^-63 does.
   */
  scaled_decay: {
    uses: ["nearest", "less_logarithms", "exponential_near_zero"],
    source: wgsl`
const decay_scale = 1.08420217e-19; // 2^-63

fn scaled_decay(x: f32, more: f32) -> f32 {
  let n = nearest(x, 1.44269504);
  let r = less_logarithms(x, n.number) + more;
  return (exponential_near_zero(r) + 1.0) * bitcast<f32>((n.bits << 23u) + 0x5f000000u);
}`,
  },

  /** e^x = 2^n e^r, n = round(x / log 2), |r| <= log(2) / 2 */
  exponential: {
    uses: ["nearest", "less_logarithms", "exponential_near_zero", "power_of_two"],
    source: wgsl`
fn exponential(x: f32) -> f32 {
  let bounded = clamp(x, -110.0, 90.0); // where the result is 0, or past the largest number
  let n = nearest(bounded, 1.44269504);
  let scaled = exponential_near_zero(less_logarithms(bounded, n.number)) + 1.0;
  let whole = bitcast<i32>(n.bits) - 0x4b400000;
  let first = whole >> 1u; // in two steps, because 2^n itself may be out of range
  return scaled * power_of_two(first) * power_of_two(whole - first);
}`,
  },

  /** e^x for x <= 0 */
  decay: {
    uses: ["scaled_decay"],
    source: wgsl`
fn decay(x: f32) -> f32 {
  return scaled_decay(max(x, -110.0), 0.0) * decay_scale;
}`,
  },

  /** log(1 + f) for 1 + f from sqrt(1/2) to sqrt(2): f - s (f - R), s = f / (2 + f), R = log(1 + f) / s - 2 */
  log_near_one: {
    source: wgsl`
fn log_near_one(f: f32) -> f32 {
  let s = f / (2.0 + f);
  let z = s * s;
  let tail = z * fma(z, fma(z, fma(z, fma(z, 0.195922047, 0.221756667), 0.285721213), 0.399999946), 0.666666687);
  return f - s * (f - tail);
}`,
  },

  /** x = 2^n m with m from sqrt(1/2) to sqrt(2), as (n, m - 1); x is positive and normal */
  split_exponent: {
    source: wgsl`
fn split_exponent(x: f32) -> vec2<f32> {
  let shifted = bitcast<u32>(x) - 0x3f3504f3u; // the bits of sqrt(1/2)
  let n = bitcast<i32>(shifted) >> 23u;
  let m = bitcast<f32>((shifted & 0x7fffffu) + 0x3f3504f3u);
  return vec2<f32>(f32(n), m - 1.0);
}`,
  },

  /** log x = n log 2 + log m */
  logarithm: {
    uses: ["split_exponent", "log_near_one", "from_bits"],
    source: wgsl`
fn logarithm(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  var normal = x;
  var exponent = 0.0;
  if (bits - 0x00800000u >= 0x7f000000u) {
    if ((bits << 1u) == 0u) { return from_bits(0xff800000u); }
    if (bits >= 0x7f800000u) { return select(x, from_bits(0x7fc00000u), bits > 0x80000000u); }
    // Subnormal numbers are their bits, times 2^-149, even where arithmetic would flush them.
    normal = f32(bits);
    exponent = -149.0;
  }
  let parts = split_exponent(normal);
  let n = parts.x + exponent;
  return fma(n, 0.693145752, fma(n, 1.42860682e-6, log_near_one(parts.y)));
}`,
  },

  /** log(1 + t) for 0 <= t <= 1 */
  log_of_one_plus: {
    uses: ["log_near_one"],
    source: wgsl`
fn log_of_one_plus(t: f32) -> f32 {
  if (t <= 0.41421356) { return log_near_one(t); }
  return 0.693147181 + log_near_one(0.5 * (t - 1.0)); // 1 + t = 2 (1 + (t - 1) / 2)
}`,
  },

  /** 1 / (1 + e^-x) */
  logistic: {
    uses: ["decay"],
    source: wgsl`
fn logistic(x: f32) -> f32 {
  let small = decay(-abs(x)); // never overflows
  return select(small, 1.0, x >= 0.0) / (1.0 + small);
}`,
  },

  /**
   * x / (1 + e^-u) for a u of x's sign, even if 1 / (1 + e^-u) would underflow. -|u| is the sum of `exponent`
   * and `more`, see scaled_decay.
   */
  times_logistic: {
    uses: ["scaled_decay", "settled"],
    source: wgsl`
fn times_logistic(x: f32, exponent: f32, more: f32) -> f32 {
  let large = scaled_decay(exponent, more);
  // For infinite x, infinity times zero would be NaN; the limit is 0.
  let least = max(x, -110.0);
  return select(settled(least * large) * decay_scale, x, x >= 0.0) / fma(large, decay_scale, 1.0);
}`,
  },

  /** m / (m + 2), m = e^2|x| - 1 = 2^n (e^r - 1) + (2^n - 1), in which nothing cancels; odd */
  hyperbolic_tangent: {
    uses: ["nearest", "less_logarithms", "exponential_near_zero", "settled"],
    source: wgsl`
fn hyperbolic_tangent(x: f32) -> f32 {
  let double = 2.0 * min(abs(x), 10.0); // where the result is 1
  let n = nearest(double, 1.44269504);
  let scale = bitcast<f32>((n.bits << 23u) + 0x3f800000u);
  let small = exponential_near_zero(less_logarithms(double, n.number));
  let m = fma(scale, small, settled(scale - 1.0));
  // Where a division is not correctly rounded, as on NVIDIA's GPUs, it may lead beyond 1.
  return bitcast<f32>(bitcast<u32>(min(m / (m + 2.0), 1.0)) | (bitcast<u32>(x) & 0x80000000u));
}`,
  },

  /** erf(x) for |x| <= 1 */
  error_near_zero: {
    source: wgsl`
fn error_near_zero(x: f32) -> f32 {
  let z = x * x;
  let tail = fma(z, fma(z, fma(z, fma(z, fma(z, 7.85385491e-5, -0.000801019138), 0.00518832728), -0.026853811), 0.112835854), -0.37612626);
  // Where the product alone would underflow, x times 2 / sqrt(pi) does not.
  return select(fma(x, fma(z, tail, 0.128379166), x), x * 1.12837917, abs(x) < 1e-30);
}`,
  },

  /**
   * (1 - erf(x)) 2^63 for 0.7072 <= x <= 10.5: e^(-x^2) t P(t), t = 1 / `divisor`, divisor = 1 + 3/5 x. x^2 is
   * the sum of `square`, which is exact, and `more`: an error of x^2 leads to a proportional error of the result.
   */
  error_complement: {
    uses: ["scaled_decay", "upper_half"],
    source: wgsl`
fn error_complement(divisor: f32, square: f32, more: f32) -> f32 {
  let t = 1.0 / divisor;
  let tail = fma(t, fma(t, fma(t, fma(t, -0.14765437, 0.421712462), -0.34132414), -0.0402913981), -0.00428474557);
  let all = fma(t, fma(t, fma(t, fma(t, tail, 0.15643337), 0.277571047), 0.338513017), 0.33851376);
  return t * all * scaled_decay(-square, -more);
}`,
  },

  /** x with the first 12 of its 24 bits: products of two such numbers are exact */
  upper_half: {
    source: wgsl`
fn upper_half(x: f32) -> f32 {
  return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}`,
  },
};

/**
 * The text of some functions and all that they use, each once, in an order that reads well. `more` has those that only
 * some kernels need, and the others do not bring along.
 */
export function mathFunctions(names: readonly MathFunctionName[], ...more: readonly MathFunctions[]): string {
  const all: MathFunctions = Object.assign({}, functions, ...more);
  const functionOf = (name: MathFunctionName): MathFunction => all[name]!;
  const wanted = new Set<MathFunctionName>();
  const add = (name: MathFunctionName): void => {
    for (const used of functionOf(name).uses ?? []) add(used);
    wanted.add(name);
  };
  for (const name of names) add(name);
  return [...wanted].map((name) => functionOf(name).source.trim()).join("\n\n");
}
