import { describe } from "./handles.js";
import { checkNames } from "./names.js";
import { type ArithmeticKind, arithmeticKinds } from "./ops/binary/index.js";
import { Checks } from "./ops/checks.js";
import { type FloatUnaryKind, floatUnaryKinds } from "./ops/unary/index.js";

/**
 * The largest errors of single functions, in units in the last place (ulp) of the f32 result:
 *
 *   |result - exact| <= units * ulp(exact)
 *
 * with ulp(y) = 2^(floor(log2 |y|) - 23), and 2^-149 for all |y| below 2^-126. 0.5 units means correct rounding
 * to nearest.
 *
 * A function that is left out keeps only the least bounds of all backends, which are those of WGSL. They are
 * weak: a sine that is 0 for |x| < 4e-4 keeps them, and beyond pi they say nothing.
 *
 * A declared function keeps its bound for every finite argument. In f16 its result is the f32 result, rounded
 * once to nearest. It also has the shape that callers rely on: it is odd or even bit for bit, rises or falls
 * to within its units, is exact at points such as exp(0) = 1, and stays inside its range. See
 * docs/numerics.md.
 *
 * These are not declared, because they are exact on every backend: relu, relu6, abs, neg, floor, ceil, round, trunc, sign,
 * max, min, rem and comparisons. A declaration does not cover the fused activations of gemm and conv2d.
 */
export interface Accuracy {
  /** By ranges of the argument. */
  readonly unary?: { readonly [Kind in InexactUnaryKind]?: readonly UnitsRange[] };
  /** For all pairs of arguments. */
  readonly binary?: { readonly [Kind in InexactBinaryKind]?: number };
}

export type InexactUnaryKind = Exclude<FloatUnaryKind, (typeof exactUnaryKinds)[number]>;
export type InexactBinaryKind = Exclude<ArithmeticKind, (typeof exactBinaryKinds)[number]>;

/**
 * One range in a list that covers all arguments in ascending order. Each range begins where the one before ends; the
 * first begins at -Infinity. Only the last range has no `below`. A single range for all arguments is `[{ units }]`.
 */
export interface UnitsRange {
  /** The range ends before this argument, a finite number. */
  readonly below?: number;
  /** The largest error, more than 0 and finite. */
  readonly units: number;
}

const exactUnaryKinds = ["relu", "relu6", "abs", "neg", "floor", "ceil", "round", "trunc", "sign"] as const;
const exactBinaryKinds = ["max", "min", "rem"] as const;

function isNoneOf(exact: readonly string[], kind: string): boolean {
  return !exact.includes(kind);
}

export const inexactUnaryKinds: readonly InexactUnaryKind[] = floatUnaryKinds.filter(
  (kind): kind is InexactUnaryKind => isNoneOf(exactUnaryKinds, kind),
);
export const inexactBinaryKinds: readonly InexactBinaryKind[] = arithmeticKinds.filter(
  (kind): kind is InexactBinaryKind => isNoneOf(exactBinaryKinds, kind),
);

/** Returns the index of the range that contains the argument x. */
export function rangeAt(ranges: readonly UnitsRange[], x: number): number {
  const index = ranges.findIndex(({ below }) => below !== undefined && x < below);
  return index < 0 ? ranges.length - 1 : index;
}

/** Throws `INVALID_ARGUMENT`, in the name of `operation`, if a declaration does not follow the rules of `Accuracy`. */
export function checkAccuracy(operation: string, accuracy: Accuracy): void {
  const checks = new Checks(operation);
  checkNames(operation, accuracy, ["unary", "binary"], "accuracy");
  const { unary = {}, binary = {} } = accuracy;
  checkNames(operation, unary, inexactUnaryKinds, "accuracy.unary");
  for (const [kind, ranges] of Object.entries(unary)) checkRanges(checks, `accuracy.unary.${kind}`, ranges);
  checkNames(operation, binary, inexactBinaryKinds, "accuracy.binary");
  for (const [kind, units] of Object.entries(binary)) checkUnits(checks, `accuracy.binary.${kind}`, units);
}

function checkRanges(checks: Checks, name: string, ranges: readonly UnitsRange[]): void {
  if (!Array.isArray(ranges) || ranges.length === 0)
    checks.fail(name, `is ${describe(ranges)}; allowed: a list of ranges such as [{ units: 2 }]`);
  let from = Number.NEGATIVE_INFINITY;
  for (const [i, range] of ranges.entries()) {
    const place = `${name}[${i}]`;
    checkNames(checks.operation, range, ["below", "units"], place);
    const { below, units } = range;
    checkUnits(checks, `${place}.units`, units);
    if (i === ranges.length - 1) {
      if (below !== undefined)
        checks.fail(
          `${place}.below`,
          `is ${describe(below)}; allowed: none, so that the last range covers the rest`,
        );
    } else if (!(Number.isFinite(below) && below! > from))
      checks.fail(
        `${place}.below`,
        `is ${describe(below)}; allowed: finite numbers above ${from}, where it begins`,
      );
    from = below ?? from;
  }
}

function checkUnits(checks: Checks, name: string, units: unknown): void {
  if (!(Number.isFinite(units) && (units as number) > 0))
    checks.fail(name, `is ${describe(units)}; allowed: finite numbers above 0`);
}
