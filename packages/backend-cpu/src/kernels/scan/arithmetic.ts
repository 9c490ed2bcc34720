import type { ScanKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, f64x2, i32x4, shuffle32, type Value } from "../../wasm/index.js";
import { type ComputedType, elementFormats, type LaneType } from "../elements/index.js";

type Vector = Value<"v128">;
type Pairwise = (a: Vector, b: Vector) => Vector;

/** How one kind combines elements. Four rows side by side have a state of one vector or two. */
export interface ScanArithmetic {
  /** Vectors of the state of four rows: of four lanes each, or of two that are twice as wide. */
  readonly vectors: 1 | 2;
  /** For lanes without an element. A constant. */
  readonly identity: Vector;
  /** A vector of a state without elements. A constant. */
  readonly empty: Vector;
  /** Combines vectors of states. */
  readonly join: Pairwise;
  /** The states of four elements. */
  widen(f: FunctionBuilder, x: Vector): readonly Vector[];
  /** The results of a state. */
  lanes(state: readonly Vector[]): Vector;
}

/** Sums and products of floats are in f64, so that results round once, whatever the length is. */
const wide = (identity: number, join: Pairwise): ScanArithmetic => ({
  ...{ vectors: 2, identity: f32x4.const(identity), empty: f64x2.const(identity), join },
  widen(f, x) {
    const lanes = f.let(x);
    return [f64x2.promoteLowF32x4(lanes), f64x2.promoteLowF32x4(shuffle32([2, 3, 2, 3], lanes, lanes))];
  },
  lanes: ([low, high]) => shuffle32([0, 1, 4, 5], f32x4.demoteF64x2Zero(low!), f32x4.demoteF64x2Zero(high!)),
});

const narrow = (identity: Vector, join: Pairwise): ScanArithmetic => ({
  ...{ vectors: 1, identity, empty: identity, join },
  widen: (_f, x) => [x],
  lanes: ([state]) => state!,
});

const arithmetic: Readonly<Record<ScanKind, Readonly<Record<LaneType, ScanArithmetic>>>> = {
  sum: {
    f32: wide(0, f64x2.add),
    i32: narrow(i32x4.const(0), i32x4.add),
    u32: narrow(i32x4.const(0), i32x4.add),
  },
  prod: {
    f32: wide(1, f64x2.mul),
    i32: narrow(i32x4.const(1), i32x4.mul),
    u32: narrow(i32x4.const(1), i32x4.mul),
  },
  max: {
    f32: narrow(f32x4.const(Number.NEGATIVE_INFINITY), f32x4.max),
    i32: narrow(i32x4.const(-(2 ** 31)), i32x4.maxS),
    u32: narrow(i32x4.const(0), i32x4.maxU),
  },
  min: {
    f32: narrow(f32x4.const(Number.POSITIVE_INFINITY), f32x4.min),
    i32: narrow(i32x4.const(2 ** 31 - 1), i32x4.minS),
    u32: narrow(i32x4.const(-1), i32x4.minU),
  },
};

export function arithmeticOf(kind: ScanKind, dtype: ComputedType): ScanArithmetic {
  return arithmetic[kind][elementFormats[dtype].lanes];
}
