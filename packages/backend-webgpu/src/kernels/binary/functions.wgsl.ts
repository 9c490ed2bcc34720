import {
  type Accuracy,
  type ArithmeticKind,
  type BinaryKind,
  type ComparisonKind,
  type InexactBinaryKind,
  inexactBinaryKinds,
  isComparison,
} from "@backplane/core";
import { type ComputedType, layouts } from "../../program/index.js";
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

const operators: Readonly<Record<ComparisonKind, string>> = {
  ...{ equal: "==", notEqual: "!=", less: "<", lessEqual: "<=", greater: ">", greaterEqual: ">=" },
};

function comparisons(
  comparison: (operator: string) => BinaryFunction,
): Readonly<Record<ComparisonKind, BinaryFunction>> {
  const entries = Object.entries(operators).map(([kind, operator]) => [kind, comparison(operator)]);
  return Object.fromEntries(entries) as Record<ComparisonKind, BinaryFunction>;
}

type FloatFunctions = {
  readonly [Kind in ArithmeticKind]: Kind extends InexactBinaryKind ? InexactBinaryFunction : BinaryFunction;
} & Readonly<Record<ComparisonKind, BinaryFunction>>;

const floats: FloatFunctions = {
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
  // By their bits, too.
  ...comparisons((operator) => ({
    expression: `!is_nan(a) && !is_nan(b) && ordinal(a) ${operator} ordinal(b)`,
    uses: ["is_nan", "ordinal"],
  })),
  // No number has the ordinal of a NaN.
  notEqual: { expression: "is_nan(a) || ordinal(a) != ordinal(b)", uses: ["is_nan", "ordinal"] },
};

type IntegerKind = Exclude<BinaryKind, "pow">;

/** Integers wrap around in WGSL. Quotients that do not exist are different ones there, and may trap. */
function integers(div: string): Readonly<Record<IntegerKind, BinaryFunction>> {
  return {
    add: { expression: "a + b" },
    sub: { expression: "a - b" },
    mul: { expression: "a * b" },
    div: { expression: div },
    max: { expression: "max(a, b)" },
    min: { expression: "min(a, b)" },
    ...comparisons((operator) => ({ expression: `a ${operator} b` })),
  };
}

/** By the type of the values. */
const functions = {
  f32: floats,
  i32: integers("select(a / select(b, 1, b == 0 || (b == -1 && a == -2147483648)), 0, b == 0)"),
  u32: integers("select(a / select(b, 1u, b == 0u), 0u, b == 0u)"),
} as const;

export const integerKinds: readonly BinaryKind[] = Object.keys(functions.i32) as IntegerKind[];

/** Returns `fn apply(a: f32, b: f32) -> f32`, or of other types, and the functions that it calls. */
export function binaryFunction(kind: BinaryKind, dtype: ComputedType): string {
  const { value } = layouts[dtype];
  const ofType: Readonly<Partial<Record<BinaryKind, BinaryFunction>>> = functions[value];
  // Nobody asks for what `supports` leaves out.
  const { expression, uses = [] } = ofType[kind]!;
  const head = `fn apply(a: ${value}, b: ${value})`;
  const apply = isComparison(kind)
    ? `${head} -> u32 { return u32(${expression}); }`
    : `${head} -> ${value} { return ${expression}; }`;
  return [mathFunctions(uses), apply].join("\n\n");
}

export const binaryAccuracy: NonNullable<Accuracy["binary"]> = Object.fromEntries(
  inexactBinaryKinds.map((kind) => [kind, floats[kind].units]),
);
