import type { DType, FloatType, IntegerType } from "../../dtype.js";
import type { Operand } from "../../handles.js";
import type { Region } from "../../region.js";
import type { Checks } from "../checks.js";
import { defineOperation, type Operation } from "../operation.js";
import { isScalar } from "../reader.js";
import type { ArgumentsOf, Scalar } from "../table.js";

const table = {
  kind: {
    role: "kind",
    kinds: {
      add: "a + b",
      sub: "a - b",
      mul: "a b",
      div: "a / b; of integers without its fraction, and 0 if b is 0",
      max: "the larger one",
      min: "the smaller one",
      mod: "a - b floor(a / b), of the sign of b; of integers 0 if b is 0",
      rem: "a - b trunc(a / b), of the sign of a; of integers 0 if b is 0",
      floorDiv: "floor(a / b); of integers 0 if b is 0",
      atan2: "the angle of the point (b, a), from -pi to pi",
      pow: "a^b; a negative a is allowed if b is a whole number; 0^0 is 1",
      equal: "1 if a = b, else 0",
      notEqual: "1 if a and b differ, else 0",
      less: "1 if a < b, else 0",
      lessEqual: "1 if a <= b, else 0",
      greater: "1 if a > b, else 0",
      greaterEqual: "1 if a >= b, else 0",
      and: "the bits that both have",
      or: "the bits that a or b has",
      xor: "the bits that one of both has",
      shl: "a 2^b, 0 if b is 32 or more, or negative",
      shr: "a 2^-b, rounded down; if b is 32 or more, or negative, 0, and -1 for negative a",
      logicalAnd: "1 if neither is 0, else 0",
      logicalOr: "1 if one is not 0, else 0",
      logicalXor: "1 if just one is 0, else 0",
    },
  },
  a: { role: "reads", shape: "shapeA, or n", scalar: true },
  b: { role: "reads", shape: "shapeB, or n", scalar: true },
  /** May be exactly a or b if that operand has as many elements, of the same type. */
  output: { role: "writes", shape: "outputShape, or n; u8 for comparisons" },
  /** Elements of output and of each operand that is not a scalar. Replaces the shapes. */
  n: { role: "extent", otherwise: "by shapeA and shapeB" },
  /** Shape of a, which is contiguous. Replaces n. Not allowed for a scalar. */
  shapeA: { role: "extents", otherwise: "[n]" },
  shapeB: { role: "extents", otherwise: "[n]" },
  /** Checked if given. */
  outputShape: { role: "extents", otherwise: "shapeA and shapeB, broadcast" },
  /** Of a and b, and of the output unless the kind is a comparison. */
  dtype: { role: "elementType", types: ["f32", "f16", "i32", "u32", "u8"], default: "f32" },
} as const;

/**
 * output[i] = kind(a[i], b[i]).
 *
 * The operands have `n` elements each, or shapes that broadcast as in NumPy: shapes are aligned at the last
 * axis, and an extent of 1 (or an absent axis) repeats. At most one of a and b may be a scalar, which must be
 * a whole number if the data are integers. i32 and u32 wrap around. Comparisons of float data follow IEEE 754:
 * with NaN, all but notEqual give 0. and, or, xor, shl and shr are of integers; logicalAnd,
 * logicalOr and logicalXor are of u8, in which 0 is false and all else true, and atan2 and pow of floats.
 */
export interface BinaryArguments extends ArgumentsOf<typeof table> {}

export type BinaryKind = BinaryArguments["kind"];

export const binaryKinds: readonly BinaryKind[] = Object.keys(table.kind.kinds) as BinaryKind[];

/** The kinds whose output is u8. */
export type ComparisonKind = (typeof comparisonKinds)[number];

const comparisonKinds = ["equal", "notEqual", "less", "lessEqual", "greater", "greaterEqual"] as const;

/** The kinds that only integers have. */
export type BitKind = (typeof bitKinds)[number];

export const bitKinds = ["and", "or", "xor", "shl", "shr"] as const;

/** The kinds that only u8 has. */
export type LogicalKind = (typeof logicalKinds)[number];

export const logicalKinds = ["logicalAnd", "logicalOr", "logicalXor"] as const;

/** The kinds of floats whose output has the type of the operands. */
export type ArithmeticKind = Exclude<BinaryKind, ComparisonKind | BitKind | LogicalKind>;

const otherKinds: readonly BinaryKind[] = [...comparisonKinds, ...bitKinds, ...logicalKinds];

export const arithmeticKinds: readonly ArithmeticKind[] = binaryKinds.filter(
  (kind): kind is ArithmeticKind => !otherKinds.includes(kind),
);

export function isComparison(kind: BinaryKind): kind is ComparisonKind {
  return comparisonKinds.includes(kind as ComparisonKind);
}

/** The type of the results of a kind on elements of a type; undefined if the type does not have the kind. */
export function binaryResultType<Type extends BinaryProblem<unknown>["dtype"]>(
  kind: BinaryKind,
  dtype: Type,
): Type | "u8" | undefined {
  const isLogical = logicalKinds.includes(kind as LogicalKind);
  if (dtype === "u8" || isLogical) return dtype === "u8" && isLogical ? "u8" : undefined;
  if (isComparison(kind)) return "u8";
  const isInteger = dtype === "i32" || dtype === "u32";
  if (bitKinds.includes(kind as BitKind)) return isInteger ? dtype : undefined;
  return isInteger && (kind === "pow" || kind === "atan2") ? undefined : dtype;
}

export type BinaryInput<Memory> =
  | {
      readonly region: Region<Memory>;
      /** Elements per step along each axis of the problem's shape; 0 where it repeats. */
      readonly strides: readonly number[];
    }
  | {
      /** Already rounded to f32, or an integer of the data's type. */
      readonly scalar: number;
    };

/**
 * Axes of extent 1 are dropped, and neighbours are merged if both inputs allow it. A problem without
 * broadcasting has one axis. An empty shape means one element.
 */
export interface BinaryProblem<
  Memory,
  Type extends DType = FloatType | IntegerType | "u8",
  Kind extends BinaryKind = BinaryKind,
> {
  readonly dtype: Type;
  readonly kind: Kind;
  readonly shape: readonly number[];
  /** Product of the shape, at least 1. */
  readonly n: number;
  readonly a: BinaryInput<Memory>;
  readonly b: BinaryInput<Memory>;
  /** Contiguous; u8 for comparisons. Disjoint from each input's region, or the same region. */
  readonly output: Region<Memory>;
}

export const binary: Operation<BinaryArguments, BinaryProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "binary",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const kind = read.kind("kind", args.kind, binaryKinds);
    if (isScalar(args.a) && isScalar(args.b))
      read.fail("b", "is a scalar and so is a; allowed: at most one scalar (use fill() for a constant)");
    const size = read.optionalExtent("n", args.n);
    const shapeA = read.optionalExtents("shapeA", args.shapeA, undefined);
    const shapeB = read.optionalExtents("shapeB", args.shapeB, undefined);
    const given = read.optionalExtents("outputShape", args.outputShape, undefined);
    const isFlat = size !== undefined && shapeA === undefined && shapeB === undefined && given === undefined;
    const { n, countA, countB, extents, stridesA, stridesB } = isFlat
      ? flatPlaces(size)
      : placesOf(read, args, { n: size, shapeA, shapeB }, given);

    const compares = isComparison(kind);
    const output = read.region(binder, "output", args.output, n, compares ? "u8" : dtype);
    const heldA = read.regionOrScalar(binder, "a", args.a, countA, dtype);
    const isNumberA = "scalar" in heldA;
    if (!isNumberA) checkApart(read, compares, output, "a", heldA);
    const heldB = read.regionOrScalar(binder, "b", args.b, countB, dtype);
    const isNumberB = "scalar" in heldB;
    if (!isNumberB) checkApart(read, compares, output, "b", heldB);
    if (n === 0) return undefined;
    const a = isNumberA ? heldA : { region: heldA, strides: stridesA };
    const b = isNumberB ? heldB : { region: heldB, strides: stridesB };
    return { dtype, kind, shape: extents, n, a, b, output };
  },

  flops: (problem) => problem.n,
});

/** The elements of the result and of the operands, and the axes of the problem. */
interface Places extends BroadcastAxes {
  readonly n: number;
  readonly countA: number;
  readonly countB: number;
}

/** Of operands of n elements each: nothing broadcasts. */
function flatPlaces(n: number): Places {
  const extents = n === 1 ? noAxes : [n];
  const strides = n === 1 ? noAxes : oneAxis;
  return { n, countA: n, countB: n, extents, stridesA: strides, stridesB: strides };
}

const noAxes: readonly number[] = [];
const oneAxis: readonly number[] = [1];

function placesOf(
  checks: Checks,
  args: BinaryArguments,
  given: { readonly [Name in "n" | "shapeA" | "shapeB"]: BinaryArguments[Name] | undefined },
  outputShape: readonly number[] | undefined,
): Places {
  const shapes = operandShapes(checks, args, given);
  const broadcasted = broadcast(checks, shapes.a, shapes.b);
  checks.derivedExtents("outputShape", outputShape, broadcasted);
  const n = checks.product("outputShape", broadcasted);
  const countA = checks.product("shapeA", shapes.a);
  const countB = checks.product("shapeB", shapes.b);
  const { extents, stridesA, stridesB } = mergeAxes(broadcasted, shapes.a, shapes.b);
  return { n, countA, countB, extents, stridesA, stridesB };
}

/** Fails if the output overlaps an input in a way that it may not. */
function checkApart(
  checks: Checks,
  compares: boolean,
  output: Region<unknown>,
  argument: "a" | "b",
  region: Region<unknown>,
): void {
  if (output.memory !== region.memory) return;
  if (compares) checks.disjoint({ argument: "output", region: output }, { argument, region });
  else checks.disjointOrSame({ argument: "output", region: output }, { argument, region });
}

function operandShapes(
  checks: Checks,
  { a, b }: BinaryArguments,
  given: { readonly [Name in "n" | "shapeA" | "shapeB"]: BinaryArguments[Name] | undefined },
): { readonly a: readonly number[]; readonly b: readonly number[] } {
  const { n, shapeA, shapeB } = given;
  if (n !== undefined) {
    if (shapeA !== undefined || shapeB !== undefined)
      checks.fail("n", "is given together with shapes; allowed: either n, or shapeA and shapeB");
    return { a: isScalar(a) ? [] : [n], b: isScalar(b) ? [] : [n] };
  }
  const shapeOf = (argument: string, operand: Operand | Scalar, shape: readonly number[] | undefined) => {
    if (!isScalar(operand)) return shape ?? checks.counts(argument, shape);
    if (shape !== undefined) checks.fail(argument, "is given for a scalar; allowed: none");
    return [];
  };
  return { a: shapeOf("shapeA", a, shapeA), b: shapeOf("shapeB", b, shapeB) };
}

/** Returns the extent along an axis counted from the last; 1 if the shape has no such axis. */
function extentFromLast(shape: readonly number[], fromLast: number): number {
  return shape[shape.length - 1 - fromLast] ?? 1;
}

function broadcast(checks: Checks, a: readonly number[], b: readonly number[]): number[] {
  const shape: number[] = [];
  for (let i = Math.max(a.length, b.length) - 1; i >= 0; i--) {
    const x = extentFromLast(a, i);
    const y = extentFromLast(b, i);
    if (x !== y && x !== 1 && y !== 1)
      checks.fail("shapeB", `[${b.join(", ")}] does not broadcast with shapeA [${a.join(", ")}]`);
    shape.push(x === 1 ? y : x);
  }
  return shape;
}

/** Extents and strides of axes, the outermost first. */
interface BroadcastAxes {
  readonly extents: readonly number[];
  readonly stridesA: readonly number[];
  readonly stridesB: readonly number[];
}

/** Lists and loops: an object for each axis took a tenth of a small call. */
function mergeAxes(shape: readonly number[], a: readonly number[], b: readonly number[]): BroadcastAxes {
  const extents: number[] = [];
  const stridesA: number[] = [];
  const stridesB: number[] = [];
  let stepA = 1;
  let stepB = 1;
  // From the last axis on; the lists are turned around at the end.
  for (let i = 0; i < shape.length; i++) {
    const extent = extentFromLast(shape, i);
    const inA = extentFromLast(a, i);
    const inB = extentFromLast(b, i);
    if (extent !== 1) {
      const strideA = inA === 1 ? 0 : stepA;
      const strideB = inB === 1 ? 0 : stepB;
      const inner = extents.length - 1;
      // Two neighbouring axes are one if, for both inputs, the outer axis continues where the inner one ends.
      const merges =
        inner >= 0 &&
        strideA === stridesA[inner]! * extents[inner]! &&
        strideB === stridesB[inner]! * extents[inner]!;
      if (merges) extents[inner] = extents[inner]! * extent;
      else {
        extents.push(extent);
        stridesA.push(strideA);
        stridesB.push(strideB);
      }
    }
    stepA *= inA;
    stepB *= inB;
  }
  if (extents.length < 2) return { extents, stridesA, stridesB };
  return { extents: extents.reverse(), stridesA: stridesA.reverse(), stridesB: stridesB.reverse() };
}
