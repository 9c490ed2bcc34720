import type { ReducedType, ReduceKind } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  f64x2,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type FormType, formOf } from "../elements/index.js";

type Vector = Value<"v128">;
type Pairwise = (a: Vector, b: Vector) => Vector;

/** How one kind folds elements, vectors of four at a time, into an accumulator of some vectors. */
export interface Accumulation {
  /** The neutral value, for lanes without an element. A constant, as `empty`. */
  readonly identity: Vector;
  /** An accumulator without elements, one vector for each of its locals. Constants: for use before loops. */
  readonly empty: readonly Vector[];
  /**
   * Returns the accumulator with some vectors folded into it. Fast, and correct unless `isDoubtful` later
   * says otherwise, which some kinds never do.
   */
  readonly fold: (accumulator: readonly Vector[], xs: readonly Vector[]) => readonly Vector[];
  /** Combines two vectors into one before they are folded, if that is as good for a few of them. */
  readonly combine?: Pairwise;
  readonly isDoubtful?: (f: FunctionBuilder, accumulator: readonly Vector[]) => Value<"i32">;
  /** `fold` for one vector, correct in all cases. */
  readonly foldExactly: (accumulator: readonly Vector[], x: Vector) => readonly Vector[];
  /**
   * Lanes 0 and 1, and lanes 2 and 3, in 64 bits each: as f64, or as an integer of 32 bits in the low half and
   * anything in the high one.
   */
  readonly toWide: (f: FunctionBuilder, accumulator: readonly Vector[]) => readonly [Vector, Vector];
  readonly mergeWide: Pairwise;
  /** Turns two vectors of `toWide` into four lanes. */
  readonly toLanes: Pairwise;
}

const highHalf = (x: Vector): Vector => shuffle32([2, 3, 2, 3], x, x);

const demote: Pairwise = (low, high) =>
  shuffle32([0, 1, 4, 5], f32x4.demoteF64x2Zero(low), f32x4.demoteF64x2Zero(high));

const promote = (x: Vector): readonly [Vector, Vector] => [
  f64x2.promoteLowF32x4(x),
  f64x2.promoteLowF32x4(highHalf(x)),
];

export function tree(values: readonly Vector[], operation: Pairwise): Vector {
  if (values.length === 1) return values[0]!;
  const middle = values.length >> 1;
  return operation(tree(values.slice(0, middle), operation), tree(values.slice(middle), operation));
}

/**
 * Vectors that are folded together are added in f32, eight in pairs, or for columns three times four in pairs,
 * and these sums are added in f64. That makes three or four roundings, and one at the end, for any length that
 * fits the memory. Widening every element would take longer than reading it. A sum in f32 may overflow although
 * the whole does not: infinities are doubtful. The sum of negative zeros is -0, so sums start from -0.
 */
const sum: Accumulation = {
  identity: f32x4.const(-0),
  empty: [f64x2.const(-0), f64x2.const(-0)],
  fold: (accumulator, xs) => sum.foldExactly(accumulator, tree(xs, f32x4.add)),
  combine: f32x4.add,
  isDoubtful(f, [low, high]) {
    const all = f.let(f64x2.add(low!, high!));
    const difference = f.let(f64x2.sub(all, all));
    return v128.anyTrue(f64x2.ne(difference, difference));
  },
  foldExactly([low, high], x) {
    const [first, second] = promote(x);
    return [f64x2.add(low!, first), f64x2.add(high!, second)];
  },
  toWide: (_f, accumulator) => [accumulator[0]!, accumulator[1]!],
  mergeWide: f64x2.add,
  toLanes: demote,
};

/** In f64: no product of a few elements overflows, and vectors that are folded together are combined in a tree. */
const prod: Accumulation = {
  identity: f32x4.const(1),
  empty: [f64x2.const(1), f64x2.const(1)],
  fold(accumulator, xs) {
    const parts = xs.map(promote);
    return [0, 1].map((half) =>
      f64x2.mul(
        accumulator[half]!,
        tree(
          parts.map((part) => part[half]!),
          f64x2.mul,
        ),
      ),
    );
  },
  foldExactly: (accumulator, x) => prod.fold(accumulator, [x]),
  toWide: (_f, accumulator) => [accumulator[0]!, accumulator[1]!],
  mergeWide: f64x2.mul,
  toLanes: demote,
};

/**
 * The instructions for a maximum that respects NaN and the sign of zeros take several times as long as
 * reading. So three values are kept: the extreme by comparison, which may miss a NaN and has the sign of any
 * of several zeros; the sum, which is NaN if an element is (or if there are infinities of both signs:
 * doubtful too); and the sign bits, which give a zero its sign.
 */
const extreme = (
  limit: number,
  compared: Pairwise,
  signs: { readonly empty: Vector; readonly gather: Pairwise },
  exact: Pairwise,
  mergeWide: Pairwise,
): Accumulation => ({
  identity: f32x4.const(limit),
  empty: [f32x4.const(limit), f32x4.const(0), signs.empty],
  fold: ([best, total, bits], xs) => [
    compared(best!, tree(xs, compared)),
    f32x4.add(total!, tree(xs, f32x4.add)),
    signs.gather(bits!, tree(xs, signs.gather)),
  ],
  isDoubtful: (_f, [, total]) => v128.anyTrue(f32x4.ne(total!, total!)),
  foldExactly: ([best, total, bits], x) => [exact(best!, x), total!, signs.gather(bits!, x)],
  toWide(f, [best, , bits]) {
    const isZero = f32x4.eq(best!, f32x4.const(0));
    const zero = v128.and(bits!, i32x4.const(0x80000000 | 0));
    const [low, high] = promote(f.let(v128.bitselect(zero, best!, isZero)));
    return [low, high];
  },
  mergeWide,
  toLanes: demote,
});

/** Integers, which are exact in any order: sums wrap around. */
const integers = (identity: number, fold: Pairwise): Accumulation => ({
  identity: i32x4.const(identity),
  empty: [i32x4.const(identity)],
  fold: ([folded], xs) => [fold(folded!, tree(xs, fold))],
  foldExactly: ([folded], x) => [fold(folded!, x)],
  toWide: (_f, [folded]) => [
    shuffle32([0, 0, 1, 1], folded!, folded!),
    shuffle32([2, 2, 3, 3], folded!, folded!),
  ],
  mergeWide: fold,
  toLanes: (low, high) => shuffle32([0, 2, 4, 6], low, high),
});

/**
 * Truth values, which are bytes in lanes of u32: some bits of a byte are set if it is true. Until the end a partial
 * result is any number that is as true as the whole.
 */
const truths = (identity: number, fold: Pairwise): Accumulation => {
  const numbers = integers(identity, fold);
  return { ...numbers, toLanes: (low, high) => i32x4.minU(numbers.toLanes(low, high), i32x4.const(1)) };
};

/** One kind, for each form of elements that it has. */
type ByForm = Readonly<Partial<Record<FormType, Accumulation>>>;

const integerSum = integers(0, i32x4.add);

/** The one table of reductions: kernels, operation and tests are made from it. */
const accumulations: Readonly<Record<ReduceKind, ByForm>> = {
  sum: { f32: sum, i32: integerSum, u32: integerSum },
  mean: { f32: sum },
  // A largest zero is negative if all elements are, a smallest one if any is.
  max: {
    f32: extreme(
      Number.NEGATIVE_INFINITY,
      f32x4.pmax,
      { empty: i32x4.const(-1), gather: v128.and },
      f32x4.max,
      f64x2.max,
    ),
    i32: integers(-(2 ** 31), i32x4.maxS),
    u32: integers(0, i32x4.maxU),
  },
  min: {
    f32: extreme(
      Number.POSITIVE_INFINITY,
      f32x4.pmin,
      { empty: i32x4.const(0), gather: v128.or },
      f32x4.min,
      f64x2.min,
    ),
    i32: integers(2 ** 31 - 1, i32x4.minS),
    u32: integers(-1, i32x4.minU),
  },
  prod: { f32: prod },
  any: { u8: truths(0, v128.or) },
  all: { u8: truths(-1, i32x4.minU) },
};

/** Whether a kind has an element type. */
export function reduces(kind: ReduceKind, dtype: ReducedType): boolean {
  return accumulations[kind][formOf(dtype)] !== undefined;
}

/** How a kind folds elements of a type that it has. */
export function accumulationOf(kind: ReduceKind, dtype: ReducedType): Accumulation {
  return accumulations[kind][formOf(dtype)]!;
}

export function assign(
  f: FunctionBuilder,
  locals: readonly Local<"v128">[],
  values: readonly Vector[],
): void {
  for (const [i, local] of locals.entries()) f.set(local, values[i]!);
}
