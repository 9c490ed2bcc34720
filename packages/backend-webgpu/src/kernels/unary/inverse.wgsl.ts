import type { UnitsRange } from "@backplane/core";
import { wgsl } from "../../program/index.js";
import type { UnaryExpression } from "./expression.js";

type Kind =
  | ("exp2" | "log1p" | "log2" | "tan" | "asin" | "acos" | "atan")
  | ("sinh" | "cosh" | "asinh" | "acosh" | "atanh");

/**
 * Functions made of angles, of exponentials and of logarithms. Units: see `functions.wgsl.ts`. They have not been measured
 * on the H200, whose divisions and roots may add a unit and a half to those that have some; they are granted it.
 */
export const inverseFunctions: Readonly<
  Record<Kind, UnaryExpression & { readonly units: readonly UnitsRange[] }>
> = {
  exp2: {
    expression: "or_nan(x, power_of_two_to(x))",
    uses: ["nearest", "power_of_two", "or_nan"],
    units: [{ units: 1.5 }],
    // 2^n 2^r, n = round(x), which is exact for whole x
    source: wgsl`
fn power_of_two_to(x: f32) -> f32 {
  let bounded = clamp(x, -152.0, 129.0); // where the result is 0, or past the largest number
  let n = nearest(bounded, 1.0);
  let r = bounded - n.number;
  let tail = fma(r, fma(r, fma(r, fma(r, 1.46707525e-5, 0.000154514142), 0.00133366673), 0.0096180886), 0.0555040613);
  let scaled = fma(r, fma(r, fma(r, tail, 0.240226507), 0.693147182), 1.0);
  let whole = bitcast<i32>(n.bits) - 0x4b400000;
  let first = whole >> 1u; // in two steps, because 2^n itself may be out of range
  return scaled * power_of_two(first) * power_of_two(whole - first);
}`,
  },
  log1p: {
    expression: "or_nan(x, shifted_logarithm(x))",
    uses: ["shifted_logarithm", "or_nan"],
    units: [{ units: 2.75 }],
  },
  log2: {
    expression: "binary_logarithm(x)",
    uses: ["logarithm", "split_exponent", "log_near_one"],
    units: [{ units: 2.25 }],
    source: wgsl`
fn binary_logarithm(x: f32) -> f32 {
  let bits = bitcast<u32>(x);
  // What is not a positive number has the same logarithm to every base.
  if (bits - 1u >= 0x7f7fffffu) { return logarithm(x); }
  let subnormal = bits < 0x00800000u;
  let parts = split_exponent(select(x, f32(bits), subnormal));
  let natural = log_near_one(parts.y);
  return parts.x + select(0.0, -149.0, subnormal) + fma(natural, 1.44269502, natural * 1.92596303e-8);
}`,
  },
  tan: {
    expression: "tangent(x)",
    uses: ["quarter_turns", "sine_of_parts"],
    units: [{ units: 6 }],
    source: wgsl`
fn tangent(x: f32) -> f32 {
  let parts = quarter_turns(x);
  let result = sine_of_parts(parts.rest, parts.turns) / sine_of_parts(parts.rest, parts.turns + 1u);
  // The reduction makes 0 of -0.
  return select(result, x, (bitcast<u32>(x) << 1u) == 0u);
}`,
  },
  // Beyond 1/2, arcsin x is pi / 2 less twice the arcsin of sqrt((1 - x) / 2).
  asin: {
    expression: "or_nan(x, arcsine(x))",
    uses: ["arc_tail", "from_bits", "or_nan"],
    units: [{ units: 2.5 }],
    source: wgsl`
fn arcsine(x: f32) -> f32 {
  let size = abs(x);
  if (size > 1.0) { return from_bits(0x7fc00000u); }
  var result = fma(size, arc_tail(size * size), size);
  if (size > 0.5) {
    let z = fma(size, -0.5, 0.5);
    let s = 2.0 * sqrt(z);
    result = 1.57079637 - (s + fma(s, arc_tail(z), 4.37113883e-8));
  }
  return bitcast<f32>(bitcast<u32>(result) | (bitcast<u32>(x) & 0x80000000u));
}`,
  },
  acos: {
    expression: "or_nan(x, arccosine(x))",
    uses: ["arc_tail", "from_bits", "or_nan"],
    units: [{ units: 2 }],
    source: wgsl`
fn arccosine(x: f32) -> f32 {
  let size = abs(x);
  if (size > 1.0) { return from_bits(0x7fc00000u); }
  if (size <= 0.5) { return 1.57079637 - (x + fma(x, arc_tail(x * x), 4.37113883e-8)); }
  let z = fma(size, -0.5, 0.5);
  let s = 2.0 * sqrt(z);
  if (x > 0.0) { return fma(s, arc_tail(z), s); }
  return 3.14159274 - (s + fma(s, arc_tail(z), 8.74227766e-8));
}`,
  },
  atan: { expression: "or_nan(x, angle(x, 1.0))", uses: ["angle", "or_nan"], units: [{ units: 3 }] },
  // m = e^|x| - 1: (m + m / (m + 1)) / 2, in which nothing cancels. From 9 on e^-|x| is less than half a unit.
  sinh: {
    expression: "or_nan(x, hyperbolic_sine(x))",
    uses: ["exponential_less_one", "half_exponential", "or_nan"],
    units: [{ units: 3 }],
    source: wgsl`
fn hyperbolic_sine(x: f32) -> f32 {
  let size = abs(x);
  var result = 0.0;
  if (size < 9.0) {
    let m = exponential_less_one(size);
    result = 0.5 * (m + m / (m + 1.0));
  } else {
    result = half_exponential(size);
  }
  return bitcast<f32>(bitcast<u32>(result) | (bitcast<u32>(x) & 0x80000000u));
}`,
  },
  cosh: {
    expression: "or_nan(x, hyperbolic_cosine(x))",
    uses: ["half_exponential", "or_nan"],
    units: [{ units: 2.25 }],
    source: wgsl`
fn hyperbolic_cosine(x: f32) -> f32 {
  let half = half_exponential(abs(x));
  if (abs(x) >= 9.0) { return half; }
  return half + 0.25 / half;
}`,
  },
  // log(1 + |x| + x^2 / (1 + sqrt(1 + x^2))), in which nothing cancels; far out log(2 |x|).
  asinh: {
    expression: "or_nan(x, area_sine(x))",
    uses: ["shifted_logarithm", "or_nan"],
    units: [{ units: 4 }],
    source: wgsl`
fn area_sine(x: f32) -> f32 {
  let size = abs(x);
  var result = 0.0;
  if (size < 8192.0) {
    let square = size * size;
    result = shifted_logarithm(size + square / (1.0 + sqrt(1.0 + square)));
  } else {
    result = logarithm(size) + 0.693147181;
  }
  return bitcast<f32>(bitcast<u32>(result) | (bitcast<u32>(x) & 0x80000000u));
}`,
  },
  acosh: {
    expression: "or_nan(x, area_cosine(x))",
    uses: ["shifted_logarithm", "from_bits", "or_nan"],
    units: [{ units: 4.5 }],
    source: wgsl`
fn area_cosine(x: f32) -> f32 {
  if (x < 1.0) { return from_bits(0x7fc00000u); }
  if (x >= 8192.0) { return logarithm(x) + 0.693147181; }
  let t = x - 1.0;
  return shifted_logarithm(t + sqrt(t * (t + 2.0)));
}`,
  },
  atanh: {
    expression: "or_nan(x, area_tangent(x))",
    uses: ["shifted_logarithm", "from_bits", "or_nan"],
    units: [{ units: 4.5 }],
    source: wgsl`
fn area_tangent(x: f32) -> f32 {
  let size = abs(x);
  if (size > 1.0) { return from_bits(0x7fc00000u); }
  var result = from_bits(0x7f800000u);
  if (size < 1.0) { result = 0.5 * shifted_logarithm(2.0 * size / (1.0 - size)); }
  return bitcast<f32>(bitcast<u32>(result) | (bitcast<u32>(x) & 0x80000000u));
}`,
  },
};
