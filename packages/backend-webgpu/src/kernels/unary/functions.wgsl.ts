import {
  type Accuracy,
  type FloatUnaryKind,
  type InexactUnaryKind,
  isTest,
  type TestKind,
  type UnaryKind,
} from "@backplane/core";
import { type ComputedType, wgsl } from "../../program/index.js";
import {
  arcFunctions,
  type FunctionText,
  inputLayouts,
  mathFunctions,
  turnFunctions,
} from "../elementwise/index.js";
import { activationFunctions } from "./activations.wgsl.js";
import type { InexactUnaryFunction, UnaryExpression } from "./expression.js";
import { inverseFunctions } from "./inverse.wgsl.js";

const functions: {
  readonly [Kind in FloatUnaryKind]: Kind extends InexactUnaryKind ? InexactUnaryFunction : UnaryExpression;
} = {
  ...activationFunctions,
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
  return [mathFunctions(uses, turnFunctions, arcFunctions), helpers, source].join("\n\n");
}

export const unaryAccuracy: NonNullable<Accuracy["unary"]> = Object.fromEntries(
  Object.entries(functions).flatMap(([kind, { units }]: readonly [string, Partial<InexactUnaryFunction>]) =>
    units === undefined ? [] : [[kind, units]],
  ),
);
