import { wgsl } from "../../wgsl.js";

export type MathFunctionName =
  | "from_bits"
  | "power_of_two"
  | "exponential"
  | "log_near_one"
  | "split_exponent"
  | "logarithm"
  | "log_of_one_plus"
  | "logistic"
  | "hyperbolic_tangent"
  | "quarter_turns"
  | "sine_of_parts"
  | "error_near_zero"
  | "error_complement"
  | "power";

interface MathFunction {
  readonly uses?: readonly MathFunctionName[];
  readonly source: string;
}

/**
 * Elementary functions for one f32. WGSL leaves its own wide tolerances (exp may be off by 3 + 2|x|
 * units in the last place, sin by 2^-11, and only within [-pi, pi]), and says nothing of arguments at
 * which a formula overflows; these are within a few units and right at both ends.
 *
 * All coefficients are minimax fits made for this file by iterated least squares (Lawson's method)
 * against values of 40 digits, in the reduced range given beside them. The reductions are classical:
 * W. J. Cody and W. Waite, Software Manual for the Elementary Functions, 1980.
 */
const functions: Readonly<Record<MathFunctionName, MathFunction>> = {
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

  /** e^x = 2^n e^r, n = round(x / log 2), |r| <= log(2) / 2 */
  exponential: {
    uses: ["power_of_two"],
    source: wgsl`
fn exponential(x: f32) -> f32 {
  let bounded = clamp(x, -105.0, 90.0); // where the result is 0, or past the largest number
  let n = round(bounded * 1.44269504);
  // The first part of log 2 has 16 bits, so that its product with n is exact.
  let r = fma(n, -1.42860682e-6, fma(n, -0.693145752, bounded));
  let tail = fma(r, fma(r, fma(r, fma(r, fma(r, 0.000197903544, 0.0013944651), 0.00833349675), 0.0416662954), 0.166666657), 0.5);
  let scaled = fma(r * r, tail, r) + 1.0;
  let whole = i32(n);
  let first = whole >> 1u; // in two steps, because 2^n itself may be out of range
  return scaled * power_of_two(first) * power_of_two(whole - first);
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
  if (x <= 0.0) { return from_bits(select(0x7fc00000u, 0xff800000u, x == 0.0)); }
  if (x >= from_bits(0x7f800000u)) { return x; }
  let parts = split_exponent(x);
  return fma(parts.x, 0.693145752, fma(parts.x, 1.42860682e-6, log_near_one(parts.y)));
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
    uses: ["exponential"],
    source: wgsl`
fn logistic(x: f32) -> f32 {
  let small = exponential(-abs(x)); // never overflows
  return select(small, 1.0, x >= 0.0) / (1.0 + small);
}`,
  },

  /** Near 0 Lambert's continued fraction x / (1 + x^2 / (3 + x^2 / (5 + ...))), five terms as one quotient */
  hyperbolic_tangent: {
    uses: ["exponential"],
    source: wgsl`
fn hyperbolic_tangent(x: f32) -> f32 {
  let size = abs(x);
  if (size < 0.6) {
    let z = x * x;
    return x - x * (z * fma(z, 14.0, 315.0) / fma(z, fma(z, 15.0, 420.0), 945.0));
  }
  let result = 1.0 - 2.0 / (exponential(2.0 * min(size, 20.0)) + 1.0);
  return select(result, -result, x < 0.0);
}`,
  },

  /**
   * x = q pi/2 + r with |r| <= pi/4, as (r, q mod 4). pi/2 is the sum of four parts of few bits, so that
   * the products with q are exact for |x| below 2.5e4; beyond, the error grows with |x|.
   */
  quarter_turns: {
    source: wgsl`
fn quarter_turns(x: f32) -> vec2<f32> {
  let q = round(x * 0.636619772);
  let coarse = fma(q, -0.000483512878, fma(q, -1.5703125, x));
  let r = fma(q, -6.07710051e-11, fma(q, -3.13855708e-7, coarse));
  // Far out, where q itself is inexact, the result stays within [-1, 1].
  return vec2<f32>(clamp(r, -0.79, 0.79), q - 4.0 * floor(q * 0.25));
}`,
  },

  /** sin(r + turns pi/2) for turns 0..3 */
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

  /** erf(x) for |x| <= 1 */
  error_near_zero: {
    source: wgsl`
fn error_near_zero(x: f32) -> f32 {
  let z = x * x;
  let tail = fma(z, fma(z, fma(z, fma(z, fma(z, 7.85385491e-5, -0.000801019138), 0.00518832728), -0.026853811), 0.112835854), -0.37612626);
  return fma(x, fma(z, tail, 0.128379166), x);
}`,
  },

  /** 1 - erf(x) for x >= 1: e^(-x^2) t P(t), t = 1 / (1 + x / 2) */
  error_complement: {
    uses: ["exponential"],
    source: wgsl`
fn error_complement(x: f32) -> f32 {
  let bounded = min(x, 11.0); // where the result is below the smallest number
  let t = 1.0 / fma(bounded, 0.5, 1.0);
  let even = fma(t, fma(t, fma(t, fma(t, fma(t, 0.0943771675, -0.228907242), 0.0857599601), 0.0587773621), 0.179655239), 0.246764049);
  return exponential(-bounded * bounded) * t * fma(t, fma(t, even, 0.28206405), 0.282097161);
}`,
  },

  /** a^b = 2^(b log2 |a|), except for whole exponents up to 64, which are products */
  power: {
    uses: ["split_exponent", "log_near_one", "exponential", "from_bits"],
    source: wgsl`
fn power_of_whole(a: f32, exponent: u32) -> f32 {
  var result = 1.0;
  var square = a;
  for (var rest = exponent; rest != 0u; rest >>= 1u) {
    if ((rest & 1u) == 1u) { result *= square; }
    square *= square;
  }
  return result;
}

fn power(a: f32, b: f32) -> f32 {
  if (b == 0.0) { return 1.0; }
  let whole = b == floor(b);
  if (whole && abs(b) <= 64.0) {
    let product = power_of_whole(a, u32(abs(b)));
    if (b > 0.0) { return product; }
    // Where the product is near an end of the range, its reciprocal would not be.
    if (abs(product) > 1e-30 && abs(product) < 1e30) { return 1.0 / product; }
  }
  let odd = whole && abs(b) < 16777216.0 && fract(b * 0.5) != 0.0;
  if (a < 0.0 && !whole) { return from_bits(0x7fc00000u); }
  if (a == 0.0) { return select(0.0, from_bits(0x7f800000u), b < 0.0); }
  let parts = split_exponent(abs(a));
  // b log|a| = b n log 2 + b log m. The whole part of b n becomes the exponent at once, so that what is
  // rounded stays small; b is split so that its products with n are exact.
  let b_high = bitcast<f32>(bitcast<u32>(b) & 0xfffff000u);
  let steps = clamp(round(b * parts.x), -300.0, 300.0);
  let over = (b_high * parts.x - steps) + (b - b_high) * parts.x;
  let rest = over * 0.693147181 + b * log_near_one(parts.y);
  let bounded = clamp(rest, -300.0, 300.0);
  let size = scaled_exponential(bounded, steps);
  return select(size, -size, a < 0.0 && odd);
}

/// e^x 2^n
fn scaled_exponential(x: f32, n: f32) -> f32 {
  let more = round(x * 1.44269504);
  let total = clamp(n + more, -252.0, 254.0);
  let r = fma(more, -1.42860682e-6, fma(more, -0.693145752, x));
  let first = i32(total) >> 1u;
  return exponential(r) * power_of_two(first) * power_of_two(i32(total) - first);
}`,
  },
};

/** The text of some functions and all that they use, each once, in an order that reads well. */
export function mathFunctions(names: readonly MathFunctionName[]): string {
  const wanted = new Set<MathFunctionName>();
  const add = (name: MathFunctionName): void => {
    for (const used of functions[name].uses ?? []) add(used);
    wanted.add(name);
  };
  for (const name of names) add(name);
  return [...wanted].map((name) => functions[name].source.trim()).join("\n\n");
}
