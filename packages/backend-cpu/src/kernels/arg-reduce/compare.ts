import type { ArgReduceKind } from "@backplane/core";
import { f32x4, i32x4, type Value, v128 } from "../../wasm/index.js";
import { type ComputedType, elementFormats, type LaneType } from "../elements/index.js";

type Vector = Value<"v128">;
type Pairwise = (a: Vector, b: Vector) => Vector;

/** How one kind compares lanes. Masks are all ones or all zeros. */
export interface Comparison {
  /** No element is worse; one that is not better than this is not sought. A constant. */
  readonly worst: Vector;
  /** The better of two, or `best` if neither is or `x` is NaN. */
  readonly extreme: (best: Vector, x: Vector) => Vector;
  /** Of numbers: whether x is better. */
  readonly beats: (x: Vector, best: Vector) => Vector;
  /** Also of NaN, which is better than all numbers and not than another NaN. */
  readonly replaces: (x: Vector, best: Vector) => Vector;
  readonly equal: Pairwise;
  /** Undefined: there is no NaN. */
  readonly isNan: ((x: Vector) => Vector) | undefined;
}

const float = (worst: number, extreme: Pairwise, beats: Pairwise, atMost: Pairwise): Comparison => ({
  ...{ worst: f32x4.const(worst), extreme, beats, equal: f32x4.eq },
  // A comparison with NaN is false.
  replaces: (x, best) => v128.andnot(f32x4.eq(best, best), atMost(x, best)),
  isNan: (x) => f32x4.ne(x, x),
});

const integer = (worst: number, extreme: Pairwise, beats: Pairwise): Comparison => ({
  ...{ worst: i32x4.const(worst), extreme, beats, replaces: beats, equal: i32x4.eq },
  isNan: undefined,
});

const comparisons: Readonly<Record<ArgReduceKind, Readonly<Record<LaneType, Comparison>>>> = {
  argMax: {
    f32: float(Number.NEGATIVE_INFINITY, f32x4.pmax, f32x4.gt, f32x4.le),
    i32: integer(-(2 ** 31), i32x4.maxS, i32x4.gtS),
    u32: integer(0, i32x4.maxU, i32x4.gtU),
  },
  argMin: {
    f32: float(Number.POSITIVE_INFINITY, f32x4.pmin, f32x4.lt, f32x4.ge),
    i32: integer(2 ** 31 - 1, i32x4.minS, i32x4.ltS),
    u32: integer(-1, i32x4.minU, i32x4.ltU),
  },
};

export function comparisonOf(kind: ArgReduceKind, dtype: ComputedType): Comparison {
  return comparisons[kind][elementFormats[dtype].lanes];
}
