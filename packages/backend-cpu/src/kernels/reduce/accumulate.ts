import type { ReduceKind } from "@backplane/core";
import { type FunctionBuilder, f32x4, f64x2, type Local, shuffle32, type Value } from "../../wasm/index.js";

type Vector = Value<"v128">;

/** How one kind folds elements, vectors of four at a time. */
export interface Accumulation {
  /** Locals (of 16 bytes) that one accumulator of four lanes takes. */
  readonly width: 1 | 2;
  /** What changes nothing, for lanes without an element. */
  readonly identity: number;
  /** Fills one accumulator. Emits a constant: for use before loops. */
  readonly identityVector: Vector;
  /** The accumulator, some vectors folded into it. */
  readonly fold: (
    f: FunctionBuilder,
    accumulator: readonly Vector[],
    xs: readonly Vector[],
  ) => readonly Vector[];
  /** Two accumulators in one. */
  readonly merge: (a: readonly Vector[], b: readonly Vector[]) => readonly Vector[];
  /** Lanes 0 and 1, and lanes 2 and 3, in f64. */
  readonly toDouble: (accumulator: readonly Vector[]) => readonly [Vector, Vector];
  readonly mergeDouble: (a: Vector, b: Vector) => Vector;
}

const highHalf = (x: Vector): Vector => shuffle32([2, 3, 2, 3], x, x);

type Pairwise = (a: Vector, b: Vector) => Vector;

/**
 * Sums and products in f64: rounding errors stay below those of the one rounding at the end for
 * any length that fits the memory, and no intermediate result overflows f32. What is folded at once
 * is combined in a tree.
 */
const inDouble = (operation: Pairwise, identity: number): Accumulation => ({
  width: 2,
  identity,
  identityVector: f64x2.const(identity),
  fold(_f, accumulator, xs) {
    const half = (i: number): Vector => {
      const parts = xs.map((x) => f64x2.promoteLowF32x4(i === 0 ? x : highHalf(x)));
      return operation(accumulator[i]!, tree(parts, operation));
    };
    return [half(0), half(1)];
  },
  merge: (a, b) => [operation(a[0]!, b[0]!), operation(a[1]!, b[1]!)],
  toDouble: (accumulator) => [accumulator[0]!, accumulator[1]!],
  mergeDouble: operation,
});

const inSingle = (operation: Pairwise, mergeDouble: Pairwise, identity: number): Accumulation => ({
  width: 1,
  identity,
  identityVector: f32x4.const(identity),
  fold: (_f, accumulator, xs) => [operation(accumulator[0]!, tree(xs, operation))],
  merge: (a, b) => [operation(a[0]!, b[0]!)],
  toDouble: ([accumulator]) => [
    f64x2.promoteLowF32x4(accumulator!),
    f64x2.promoteLowF32x4(highHalf(accumulator!)),
  ],
  mergeDouble,
});

function tree(values: readonly Vector[], operation: Pairwise): Vector {
  if (values.length === 1) return values[0]!;
  const middle = values.length >> 1;
  return operation(tree(values.slice(0, middle), operation), tree(values.slice(middle), operation));
}

// The sum of negative zeros is -0, so that is what a sum starts from.
const sum = inDouble(f64x2.add, -0);

/** The one table of reductions: kernels, operation and tests are made from it. */
export const accumulations: Readonly<Record<ReduceKind, Accumulation>> = {
  sum,
  mean: sum,
  max: inSingle(f32x4.max, f64x2.max, Number.NEGATIVE_INFINITY),
  min: inSingle(f32x4.min, f64x2.min, Number.POSITIVE_INFINITY),
  prod: inDouble(f64x2.mul, 1),
};

/** Locals for one accumulator. */
export function accumulatorLocals(f: FunctionBuilder, accumulation: Accumulation): readonly Local<"v128">[] {
  return Array.from({ length: accumulation.width }, () => f.local("v128"));
}

export function assign(
  f: FunctionBuilder,
  locals: readonly Local<"v128">[],
  values: readonly Vector[],
): void {
  for (const [i, local] of locals.entries()) f.set(local, values[i]!);
}
