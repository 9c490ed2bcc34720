import type { UnaryKind } from "@backplane/core";
import { wgsl } from "../../wgsl.js";
import { type MathFunctionName, mathFunctions } from "../elementwise/math.wgsl.js";

/** An expression in `x`, and the functions that it uses. */
interface UnaryFunction {
  readonly expression: string;
  readonly uses?: readonly MathFunctionName[];
  /** Functions that only this kind has. */
  readonly source?: string;
}

const functions: Readonly<Record<UnaryKind, UnaryFunction>> = {
  relu: { expression: "max(x, 0.0)" },
  sigmoid: { expression: "logistic(x)", uses: ["logistic"] },
  tanh: { expression: "hyperbolic_tangent(x)", uses: ["hyperbolic_tangent"] },
  exp: { expression: "exponential(x)", uses: ["exponential"] },
  log: { expression: "logarithm(x)", uses: ["logarithm"] },
  sqrt: { expression: "sqrt(x)" },
  rsqrt: { expression: "inverseSqrt(x)" },
  reciprocal: { expression: "1.0 / x" },
  abs: { expression: "abs(x)" },
  neg: { expression: "-x" },
  sin: {
    expression: "sine(x)",
    uses: ["quarter_turns", "sine_of_parts"],
    source: wgsl`
fn sine(x: f32) -> f32 {
  let parts = quarter_turns(x);
  return sine_of_parts(parts.x, u32(parts.y));
}`,
  },
  cos: {
    expression: "cosine(x)",
    uses: ["quarter_turns", "sine_of_parts"],
    source: wgsl`
fn cosine(x: f32) -> f32 {
  let parts = quarter_turns(x);
  return sine_of_parts(parts.x, u32(parts.y) + 1u);
}`,
  },
  floor: { expression: "floor(x)" },
  ceil: { expression: "ceil(x)" },
  round: { expression: "round(x)" },
  sign: { expression: "sign(x)" },
  erf: {
    expression: "error_function(x)",
    uses: ["error_near_zero", "error_complement"],
    source: wgsl`
fn error_function(x: f32) -> f32 {
  if (abs(x) < 1.0) { return error_near_zero(x); }
  let result = 1.0 - error_complement(abs(x));
  return select(result, -result, x < 0.0);
}`,
  },
  gelu: {
    expression: "gaussian_unit(x)",
    uses: ["error_near_zero", "error_complement"],
    // For negative x, 1 + erf would cancel; the complement does not.
    source: wgsl`
fn gaussian_unit(x: f32) -> f32 {
  let y = x * 0.707106781;
  if (abs(y) < 1.0) { return 0.5 * x * (1.0 + error_near_zero(y)); }
  let outside = 0.5 * error_complement(abs(y));
  return x * select(outside, 1.0 - outside, x > 0.0);
}`,
  },
  // (1 + tanh u) / 2 is sigmoid(2u), which does not cancel.
  geluTanh: {
    expression: "x * logistic(1.59576912 * x * fma(0.044715, x * x, 1.0))",
    uses: ["logistic"],
  },
  silu: { expression: "x * logistic(x)", uses: ["logistic"] },
  softplus: {
    expression: "max(x, 0.0) + log_of_one_plus(exponential(-abs(x)))",
    uses: ["exponential", "log_of_one_plus"],
  },
};

/** `fn apply(x: f32) -> f32` and what it needs. */
export function unaryFunction(kind: UnaryKind): string {
  const { expression, uses = [], source = "" } = functions[kind];
  return [mathFunctions(uses), source.trim(), `fn apply(x: f32) -> f32 { return ${expression}; }`].join(
    "\n\n",
  );
}
