import {
  type Accuracy,
  type FloatUnaryKind,
  type InexactUnaryKind,
  isTest,
  type TestKind,
  type UnaryKind,
  type UnitsRange,
} from "@backplane/core";
import { type ComputedType, wgsl } from "../../program/index.js";
import { type FunctionText, inputLayouts, mathFunctions } from "../elementwise/index.js";
import type { UnaryExpression } from "./expression.js";
import { inverseFunctions } from "./inverse.wgsl.js";

interface InexactUnaryFunction extends UnaryExpression {
  /**
   * Declared as the function's accuracy: the largest errors measured on SwiftShader, lavapipe and an NVIDIA H200
   * (docs/numerics.md), and a tenth more, rounded up to a quarter. softplus has a quarter more, because it falls
   * by 3 units on lavapipe.
   */
  readonly units: readonly UnitsRange[];
}

const functions: {
  readonly [Kind in FloatUnaryKind]: Kind extends InexactUnaryKind ? InexactUnaryFunction : UnaryExpression;
} = {
  // Compares bits, from -0 to -infinity: max(x, 0) may give 0 for NaN, and flush subnormal numbers.
  relu: { expression: "select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u)" },
  // Likewise, and from the first number above 6 to infinity.
  relu6: {
    expression: `select(select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u), 6.0,
    bitcast<u32>(x) - 0x40c00001u <= 0x3ebfffffu)`,
  },
  sigmoid: { expression: "or_nan(x, logistic(x))", uses: ["logistic", "or_nan"], units: [{ units: 3.25 }] },
  tanh: {
    expression: "or_nan(x, hyperbolic_tangent(x))",
    uses: ["hyperbolic_tangent", "or_nan"],
    units: [{ units: 3.25 }],
  },
  exp: { expression: "or_nan(x, exponential(x))", uses: ["exponential", "or_nan"], units: [{ units: 2 }] },
  expm1: {
    expression: "or_nan(x, exponential_less_one(x))",
    uses: ["exponential_less_one", "or_nan"],
    units: [{ units: 2.5 }],
  },
  log: { expression: "logarithm(x)", uses: ["logarithm"], units: [{ units: 1.25 }] },
  sqrt: { expression: "sqrt(x)", units: [{ units: 1.25 }] },
  rsqrt: { expression: "inverseSqrt(x)", units: [{ units: 1.75 }] },
  reciprocal: { expression: "1.0 / x", units: [{ units: 1.25 }] },
  // Of bits, so that no adapter flushes subnormal numbers.
  abs: { expression: "bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu)" },
  neg: { expression: "bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u)" },
  square: { expression: "x * x", units: [{ units: 1 }] },
  sin: {
    expression: "sine(x)",
    uses: ["quarter_turns", "sine_of_parts"],
    units: [{ units: 3 }],
    source: wgsl`
fn sine(x: f32) -> f32 {
  let parts = quarter_turns(x);
  // The reduction makes 0 of -0.
  return select(sine_of_parts(parts.rest, parts.turns), x, (bitcast<u32>(x) << 1u) == 0u);
}`,
  },
  cos: {
    expression: "cosine(x)",
    uses: ["quarter_turns", "sine_of_parts"],
    units: [{ units: 3 }],
    source: wgsl`
fn cosine(x: f32) -> f32 {
  let parts = quarter_turns(x);
  return sine_of_parts(parts.rest, parts.turns + 1u);
}`,
  },
  floor: { expression: "floor(x)" },
  ceil: { expression: "ceil(x)" },
  round: { expression: "round(x)" },
  trunc: { expression: "trunc(x)" },
  sign: {
    expression: "sign_of(x)",
    source: wgsl`
fn sign_of(x: f32) -> f32 {
  let size = bitcast<u32>(x) & 0x7fffffffu;
  // Neither a zero nor NaN.
  return select(x, bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x3f800000u), size - 1u < 0x7f800000u);
}`,
  },
  erf: {
    expression: "or_nan(x, error_function(x))",
    uses: ["error_near_zero", "error_complement", "or_nan"],
    units: [{ units: 2 }],
    source: wgsl`
fn error_function(x: f32) -> f32 {
  let size = min(abs(x), 6.0); // where the result is 1
  let high = upper_half(size);
  let far = 1.0 - decay_scale * error_complement(fma(size, 0.6, 1.0), high * high, (size - high) * (size + high));
  // Both are computed, as neighbours seldom take the same branch.
  return select(select(far, -far, x < 0.0), error_near_zero(x), abs(x) < 1.0);
}`,
  },
  gelu: {
    expression: "or_nan(x, gaussian_unit(x))",
    uses: ["error_complement", "settled", "or_nan"],
    units: [{ below: -1, units: 7.5 }, { below: 0, units: 4.25 }, { units: 2 }],
    // x Phi(x). Near 0 Phi is 1/2 + x Q(x^2); farther, for negative x, both would cancel. The complement does not. Both
    // are computed, as neighbours seldom take the same branch.
    source: wgsl`
fn gaussian_unit(x: f32) -> f32 {
  let z = x * x;
  let tail = fma(z, fma(z, fma(z, fma(z, -7.44507758e-6, 0.000112905187), -0.00118573982), 0.00997305928), -0.066490311);
  let near = x * fma(x, fma(z, tail, 0.398942278), 0.5);
  let bounded = clamp(x, -14.9, 14.9); // where one of both parts vanishes
  let size = abs(bounded);
  let high = upper_half(size);
  let more = 0.5 * (size - high) * (size + high);
  let complement = error_complement(fma(size, 0.424264069, 1.0), 0.5 * high * high, more);
  const half = 0.5 * decay_scale;
  let far = select(settled(bounded * complement) * half, x * fma(complement, -half, 1.0), x > 0.0);
  return select(far, near, abs(x) < 1.001);
}`,
  },
  // x (1 + tanh(u / 2)) / 2 with u = x (s + c x^2) is x sigmoid(u), which does not cancel.
  geluTanh: {
    expression: "or_nan(x, tanh_unit(x))",
    uses: ["times_logistic", "upper_half", "settled", "or_nan"],
    units: [{ below: -1, units: 4.5 }, { units: 3.25 }],
    // An error of u leads to a proportional error of the result, and u reaches 104. So u is the product of
    // two numbers of 12 bits, which is exact, and a small rest; s + c x^2 is one of the two, with a small
    // rest of its own.
    source: wgsl`
fn tanh_unit(x: f32) -> f32 {
  let size = min(abs(x), 10.9); // where the result is x or -0
  let high = upper_half(size);
  let low = size - high;
  let square = size * size;
  let square_high = upper_half(square);
  let square_low = fma(low, size + high, settled(high * high - square_high));
  let slope = fma(square, 0.0713548163, 1.59576912); // c and s, of which 0.0713500977 and 1.59570312 are 12 bits
  let slope_high = upper_half(slope);
  let slope_low = settled(fma(square_high, 0.0713500977, 1.59570312 - slope_high))
    + fma(square_high, 4.71861635e-6, fma(square_low, 0.0713548163, 6.59966057e-5));
  return times_logistic(x, -high * slope_high, -fma(high, slope_low, low * slope));
}`,
  },
  silu: {
    expression: "or_nan(x, times_logistic(x, max(-abs(x), -110.0), 0.0))",
    uses: ["times_logistic", "or_nan"],
    units: [{ below: -1, units: 4.25 }, { units: 3.25 }],
  },
  softplus: {
    expression: "or_nan(x, max(x, 0.0) + log_of_one_plus(decay(-abs(x))))",
    uses: ["decay", "log_of_one_plus", "or_nan"],
    units: [{ units: 3 }],
  },
  ...inverseFunctions,
};

/** Of the bits of |x|. An expression of numbers may be taken for always true. */
const tests: Readonly<Record<TestKind, UnaryExpression>> = {
  isNaN: { expression: "u32((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u)" },
  isInfinite: { expression: "u32((bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u)" },
  isFinite: { expression: "u32((bitcast<u32>(x) & 0x7fffffffu) < 0x7f800000u)" },
};

/** Integers wrap around. */
const integers = {
  i32: {
    abs: { expression: "abs(x)" },
    neg: { expression: "-x" },
    square: { expression: "x * x" },
    sign: { expression: "sign(x)" },
    not: { expression: "~x" },
  },
  u32: {
    abs: { expression: "x" },
    neg: { expression: "0u - x" },
    square: { expression: "x * x" },
    sign: { expression: "min(x, 1u)" },
    not: { expression: "~x" },
  },
} as const;

const truths = { logicalNot: { expression: "u32(x == 0u)" } } as const;

const ofType: Readonly<Record<UnaryType, Readonly<Partial<Record<UnaryKind, UnaryExpression>>>>> = {
  f32: { ...functions, ...tests },
  f16: { ...functions, ...tests },
  ...{ ...integers, u8: truths },
};

/** Element types that the operation has. */
export type UnaryType = ComputedType | "u8";

/** The kinds that an element type has. */
export function unaryKindsOf(dtype: UnaryType): readonly UnaryKind[] {
  return Object.keys(ofType[dtype]) as UnaryKind[];
}

/** Returns `fn <name>(x: f32) -> f32`, or of other types, and what it calls; tests give a u32. */
export function unaryText(kind: UnaryKind, dtype: UnaryType, name: string): FunctionText {
  // Nobody asks for what `supports` leaves out.
  const { expression, uses = [], source = "" }: UnaryExpression = ofType[dtype][kind]!;
  const { value } = inputLayouts[dtype];
  const text = `fn ${name}(x: ${value}) -> ${isTest(kind) ? "u32" : value} { return ${expression}; }`;
  return { uses, helpers: source.trim(), source: text };
}

/** Returns `fn apply(x: f32) -> f32`, or of other types, and the functions that it calls. */
export function unaryFunction(kind: UnaryKind, dtype: UnaryType = "f32"): string {
  const { uses, helpers, source } = unaryText(kind, dtype, "apply");
  return [mathFunctions(uses), helpers, source].join("\n\n");
}

export const unaryAccuracy: NonNullable<Accuracy["unary"]> = Object.fromEntries(
  Object.entries(functions).flatMap(([kind, { units }]: readonly [string, Partial<InexactUnaryFunction>]) =>
    units === undefined ? [] : [[kind, units]],
  ),
);
