import {
  type Accuracy,
  type ArithmeticKind,
  type InexactBinaryKind,
  inexactBinaryKinds,
} from "@backplane/core";
import type { MathFunctionName } from "../elementwise/index.js";
import { mathFunctions } from "../elementwise/index.js";

interface BinaryFunction {
  readonly expression: string;
  readonly uses?: readonly MathFunctionName[];
}

interface InexactBinaryFunction extends BinaryFunction {
  /**
   * Declared as the function's accuracy: as that of unary functions, while add, sub and mul have WGSL's own unit.
   * Whole exponents of pow have not been measured on the H200, whose divisions may add a unit and a half.
   */
  readonly units: number;
}

const functions: {
  readonly [Kind in ArithmeticKind]: Kind extends InexactBinaryKind ? InexactBinaryFunction : BinaryFunction;
} = {
  add: { expression: "a + b", units: 1 },
  sub: { expression: "a - b", units: 1 },
  mul: { expression: "a * b", units: 1 },
  // WGSL promises an accurate quotient only for divisors up to 2^126.
  div: { expression: "select(a / b, (0.25 * a) / (0.25 * b), abs(b) > 4.25352959e37)", units: 2.25 },
  // By their bits: max(a, b) may leave out a NaN, and flush subnormal numbers.
  max: {
    expression: "select(b, a, is_nan(a) || (!is_nan(b) && rank(a) > rank(b)))",
    uses: ["is_nan", "rank"],
  },
  min: {
    expression: "select(b, a, is_nan(a) || (!is_nan(b) && rank(a) < rank(b)))",
    uses: ["is_nan", "rank"],
  },
  pow: { expression: "power(a, b)", uses: ["power"], units: 13 },
};

/** Returns `fn apply(a: f32, b: f32) -> f32` and the functions that it calls. */
export function binaryFunction(kind: ArithmeticKind): string {
  const { expression, uses = [] }: BinaryFunction = functions[kind];
  return [mathFunctions(uses), `fn apply(a: f32, b: f32) -> f32 { return ${expression}; }`].join("\n\n");
}

export const binaryAccuracy: NonNullable<Accuracy["binary"]> = Object.fromEntries(
  inexactBinaryKinds.map((kind) => [kind, functions[kind].units]),
);
