import {
  type Accuracy,
  type ArithmeticKind,
  type BinaryKind,
  type ComparisonKind,
  type InexactBinaryKind,
  inexactBinaryKinds,
  isComparison,
  type LogicalKind,
} from "@backplane/core";
import { type ComputedType, wgsl } from "../../program/index.js";
import type { MathFunctionName } from "../elementwise/index.js";
import {
  arcFunctions,
  type FunctionText,
  inputLayouts,
  mathFunctions,
  pairFunctions,
} from "../elementwise/index.js";

interface BinaryFunction {
  readonly expression: string;
  readonly uses?: readonly MathFunctionName[];
  /** Functions that only this kind has. */
  readonly source?: string;
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
  div: { expression: "quotient(a, b)", uses: ["quotient"], units: 2.25 },
  // By their bits: max(a, b) may leave out a NaN, and flush subnormal numbers.
  max: {
    expression: "select(b, a, is_nan(a) || (!is_nan(b) && rank(a) > rank(b)))",
    uses: ["is_nan", "rank"],
  },
  min: {
    expression: "select(b, a, is_nan(a) || (!is_nan(b) && rank(a) < rank(b)))",
    uses: ["is_nan", "rank"],
  },
  mod: { expression: "floored_remainder(a, b)", uses: ["floored_remainder"], units: 1 },
  rem: { expression: "remainder(a, b)", uses: ["remainder"] },
  floorDiv: { expression: "floored_quotient(a, b)", uses: ["floored_quotient"], units: 2.25 },
  atan2: { expression: "angle(a, b)", uses: ["angle"], units: 3 },
  pow: { expression: "power(a, b)", uses: ["power"], units: 13 },
  // By their bits, too.
  ...comparisons((operator) => ({
    expression: `!is_nan(a) && !is_nan(b) && ordinal(a) ${operator} ordinal(b)`,
    uses: ["is_nan", "ordinal"],
  })),
  // No number has the ordinal of a NaN.
  notEqual: { expression: "is_nan(a) || ordinal(a) != ordinal(b)", uses: ["is_nan", "ordinal"] },
};

type IntegerKind = Exclude<BinaryKind, "pow" | "atan2" | LogicalKind>;

interface IntegerDivision {
  /** The quotient without its fraction; those that do not exist are different ones in WGSL, and may trap. */
  readonly div: string;
  readonly mod: string;
  readonly rem: string;
  readonly floorDiv: string;
  readonly shl: string;
  readonly shr: string;
  /** Functions that these call. */
  readonly source: string;
}

/** Integers wrap around in WGSL. */
function integers({ source, ...own }: IntegerDivision): Readonly<Record<IntegerKind, BinaryFunction>> {
  return {
    add: { expression: "a + b" },
    sub: { expression: "a - b" },
    mul: { expression: "a * b" },
    div: { expression: own.div, source },
    mod: { expression: own.mod, source },
    rem: { expression: own.rem, source },
    floorDiv: { expression: own.floorDiv, source },
    max: { expression: "max(a, b)" },
    min: { expression: "min(a, b)" },
    and: { expression: "a & b" },
    or: { expression: "a | b" },
    xor: { expression: "a ^ b" },
    shl: { expression: own.shl },
    shr: { expression: own.shr },
    ...comparisons((operator) => ({ expression: `a ${operator} b` })),
  };
}

const truths: Readonly<Record<LogicalKind, BinaryFunction>> = {
  logicalAnd: { expression: "u32(a != 0u && b != 0u)" },
  logicalOr: { expression: "u32(a != 0u || b != 0u)" },
  logicalXor: { expression: "u32((a != 0u) != (b != 0u))" },
};

const functions = {
  f32: floats,
  f16: floats,
  i32: integers({
    div: "select(a / divisor(a, b), 0, b == 0)",
    mod: "floored_rest(a, b)",
    rem: "rest(a, b)",
    floorDiv: "select(a / divisor(a, b) - select(0, 1, rest(a, b) != 0 && (a ^ b) < 0), 0, b == 0)",
    shl: "select(a << (bitcast<u32>(b) & 31u), 0, bitcast<u32>(b) > 31u)",
    shr: "a >> min(bitcast<u32>(b), 31u)",
    source: wgsl`
fn divisor(a: i32, b: i32) -> i32 {
  return select(b, 1, b == 0 || (b == -1 && a == -2147483648));
}

fn rest(a: i32, b: i32) -> i32 {
  let by = divisor(a, b);
  return a - (a / by) * by;
}

fn floored_rest(a: i32, b: i32) -> i32 {
  let part = rest(a, b);
  return select(part, part + b, part != 0 && (a ^ b) < 0);
}`,
  }),
  u32: integers({
    div: "select(a / max(b, 1u), 0u, b == 0u)",
    mod: "a - (a / max(b, 1u)) * max(b, 1u)",
    rem: "a - (a / max(b, 1u)) * max(b, 1u)",
    floorDiv: "select(a / max(b, 1u), 0u, b == 0u)",
    shl: "select(a << (b & 31u), 0u, b > 31u)",
    shr: "select(a >> (b & 31u), 0u, b > 31u)",
    source: "",
  }),
  u8: truths,
} as const;

/** Element types that the operation has. */
export type BinaryType = ComputedType | "u8";

/** The kinds that an element type has. */
export function binaryKindsOf(dtype: BinaryType): readonly BinaryKind[] {
  return Object.keys(functions[dtype]) as BinaryKind[];
}

/** Returns `fn <name>(a: f32, b: f32) -> f32`, or of other types, and what it calls; comparisons give a u32. */
export function binaryText(kind: BinaryKind, dtype: BinaryType, name: string): FunctionText {
  const { value } = inputLayouts[dtype];
  const ofType: Readonly<Partial<Record<BinaryKind, BinaryFunction>>> = functions[dtype];
  // Nobody asks for what `supports` leaves out.
  const { expression, uses = [], source = "" } = ofType[kind]!;
  const head = `fn ${name}(a: ${value}, b: ${value})`;
  const text = isComparison(kind)
    ? `${head} -> u32 { return u32(${expression}); }`
    : `${head} -> ${value} { return ${expression}; }`;
  return { uses, helpers: source.trim(), source: text };
}

/** Returns `fn apply(a: f32, b: f32) -> f32`, or of other types, and the functions that it calls. */
export function binaryFunction(kind: BinaryKind, dtype: BinaryType): string {
  const { uses, helpers, source } = binaryText(kind, dtype, "apply");
  return [mathFunctions(uses, pairFunctions, arcFunctions), helpers, source].join("\n\n");
}

export const binaryAccuracy: NonNullable<Accuracy["binary"]> = Object.fromEntries(
  inexactBinaryKinds.map((kind) => [kind, floats[kind].units]),
);
