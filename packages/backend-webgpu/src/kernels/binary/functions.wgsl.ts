import type { ArithmeticKind } from "@backplane/core";
import type { MathFunctionName } from "../elementwise/index.js";
import { mathFunctions } from "../elementwise/index.js";

interface BinaryFunction {
  readonly expression: string;
  readonly uses?: readonly MathFunctionName[];
}

const functions: Readonly<Record<ArithmeticKind, BinaryFunction>> = {
  add: { expression: "a + b" },
  sub: { expression: "a - b" },
  mul: { expression: "a * b" },
  // WGSL promises an accurate quotient only for divisors up to 2^126.
  div: { expression: "select(a / b, (0.25 * a) / (0.25 * b), abs(b) > 4.25352959e37)" },
  // By their bits: max(a, b) may leave out a NaN, and flush subnormal numbers.
  max: {
    expression: "select(b, a, is_nan(a) || (!is_nan(b) && rank(a) > rank(b)))",
    uses: ["is_nan", "rank"],
  },
  min: {
    expression: "select(b, a, is_nan(a) || (!is_nan(b) && rank(a) < rank(b)))",
    uses: ["is_nan", "rank"],
  },
  pow: { expression: "power(a, b)", uses: ["power"] },
};

/** Returns `fn apply(a: f32, b: f32) -> f32` and the functions that it calls. */
export function binaryFunction(kind: ArithmeticKind): string {
  const { expression, uses = [] } = functions[kind];
  return [mathFunctions(uses), `fn apply(a: f32, b: f32) -> f32 { return ${expression}; }`].join("\n\n");
}
