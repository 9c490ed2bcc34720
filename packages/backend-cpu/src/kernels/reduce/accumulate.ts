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
import {
  demote as demoted,
  exponential,
  logarithm,
  promote as promoted,
  type VectorLocal,
} from "../math/index.js";

type Vector = Value<"v128">;
type Pairwise = (a: Vector, b: Vector) => Vector;

/** An accumulator of some vectors. */
export interface AccumulatorForm {
  /** The neutral value, for lanes without an element. A constant, as `empty`. */
  readonly identity: Vector;
  /** An accumulator without elements, one vector for each of its locals. Constants: for use before loops. */
  readonly empty: readonly Vector[];
  /** Combines two vectors into one before they are folded, if that is as good for a few of them. */
  readonly combine?: Pairwise;
}

/** How one kind folds elements, vectors of four at a time, into an accumulator. */
export interface Accumulation extends AccumulatorForm {
  /**
   * Returns the accumulator with some vectors folded into it. Fast, and correct unless `isDoubtful` later
   * says otherwise, which some kinds never do.
   */
  readonly fold: (accumulator: readonly Vector[], xs: readonly Vector[]) => readonly Vector[];
  readonly isDoubtful?: (f: FunctionBuilder, accumulator: readonly Vector[]) => Value<"i32">;
  /** `fold` for one vector, correct in all cases. */
  readonly foldExactly: (accumulator: readonly Vector[], x: Vector) => readonly Vector[];
  /**
   * Lanes 0 and 1, and lanes 2 and 3, in 64 bits each: as f64, as an integer of 32 bits in the low half and
   * anything in the high one, or as two numbers of f32.
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

/** An accumulation that needs constants of its own in a function: `emit` is called before its loops. */
interface EmittedAccumulation extends AccumulatorForm {
  readonly emit: (f: FunctionBuilder) => Accumulation;
}

const largestFloat = (2 - 2 ** -23) * 2 ** 127;

const exponentialSums: AccumulatorForm = {
  identity: f32x4.const(Number.NEGATIVE_INFINITY),
  empty: [f32x4.const(-largestFloat), f64x2.const(0), f64x2.const(0)],
};

/**
 * m + ln(sum of e^(x - m)) with the largest x so far as m: when a larger one comes, the sum is multiplied by e^(m - larger).
 * m is always a finite number, so that no difference is NaN: an x of Infinity makes the sum infinite, and all that are
 * -Infinity leave it 0. The sum is in f64, and as pairs of m and sum, which 64 bits hold, in f32.
 */
const logSumExp: EmittedAccumulation = {
  ...exponentialSums,
  emit(f) {
    const exp = exponential(f);
    const log = logarithm(f);
    const largest = f.let(f32x4.const(largestFloat));
    const join: Pairwise = (a, b) => f.let(f32x4.pmin(f32x4.pmax(a, b), largest));
    const fold: Accumulation["fold"] = ([before, low, high], xs) => {
      const m = join(before!, tree(xs, f32x4.pmax));
      const sums = tree(
        xs.map((x) => exp(f32x4.sub(x, m))),
        f32x4.add,
      );
      const parts = promoted(f, f.let(sums));
      const shares = promoted(f, f.let(exp(f32x4.sub(before!, m))));
      const [first, second] = [low!, high!].map((sum, half) =>
        f.let(f64x2.add(f64x2.mul(sum, shares[half]!), parts[half]!)),
      );
      return [m, first!, second!];
    };
    return {
      ...exponentialSums,
      fold,
      foldExactly: (accumulator, x) => fold(accumulator, [x]),
      toWide(_f, [m, low, high]) {
        const sums = f.let(demoted(low as VectorLocal, high as VectorLocal));
        return [f.let(shuffle32([0, 4, 1, 5], m!, sums)), f.let(shuffle32([2, 6, 3, 7], m!, sums))];
      },
      mergeWide(a, b) {
        const pairs = [f.let(a), f.let(b)];
        const maxima = pairs.map((pair) => f.let(shuffle32([0, 0, 2, 2], pair, pair)));
        const m = join(maxima[0]!, maxima[1]!);
        const [one, other] = pairs.map((pair, i) =>
          f32x4.mul(shuffle32([1, 1, 3, 3], pair, pair), exp(f32x4.sub(maxima[i]!, m))),
        );
        return f.let(shuffle32([0, 4, 2, 6], m, f.let(f32x4.add(one!, other!))));
      },
      toLanes(low, high) {
        const pairs = [f.let(low), f.let(high)] as const;
        return f32x4.add(shuffle32([0, 2, 4, 6], ...pairs), log(f.let(shuffle32([1, 3, 5, 7], ...pairs))));
      },
    };
  },
};

/** One kind, for each form of elements that it has. */
type ByForm = Readonly<Partial<Record<FormType, Accumulation | EmittedAccumulation>>>;

const integerSum = integers(0, i32x4.add);
const integerProduct = integers(1, i32x4.mul);

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
  prod: { f32: prod, i32: integerProduct, u32: integerProduct },
  logSumExp: { f32: logSumExp },
  any: { u8: truths(0, v128.or) },
  all: { u8: truths(-1, i32x4.minU) },
};

/** Whether a kind has an element type. */
export function reduces(kind: ReduceKind, dtype: ReducedType): boolean {
  return accumulations[kind][formOf(dtype)] !== undefined;
}

/** The accumulators of a kind for elements of a type that it has. */
export function accumulatorOf(kind: ReduceKind, dtype: ReducedType): AccumulatorForm {
  return accumulations[kind][formOf(dtype)]!;
}

/** How a kind folds elements of a type that it has in a function. To be called before loops and branches. */
export function accumulationIn(f: FunctionBuilder, kind: ReduceKind, dtype: ReducedType): Accumulation {
  const found = accumulations[kind][formOf(dtype)]!;
  return "emit" in found ? found.emit(f) : found;
}

export function assign(
  f: FunctionBuilder,
  locals: readonly Local<"v128">[],
  values: readonly Vector[],
): void {
  for (const [i, local] of locals.entries()) f.set(local, values[i]!);
}
