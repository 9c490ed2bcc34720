import type { FloatType, SoftmaxKind } from "@backplane/core";
import {
  type FunctionBuilder,
  type FunctionReference,
  f32,
  f32x4,
  f64,
  f64x2,
  i32,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import {
  exponential,
  logarithm,
  normalExponential,
  normalLimit,
  promote,
  type VectorLocal,
} from "../math/index.js";
import { lanesBelow, storeUpTo } from "../rows/index.js";
import { mapVectors } from "../vector/index.js";

/*
 * With m the largest x along the axis and S the sum of e^(x - m), which is at least 1, a result is
 * e^(x - m) (1 / S) or (x - m) - ln S. No step cancels: x - m and -ln S are not positive (P. Blanchard,
 * D. Higham, N. Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41,
 * 2021). In units of 2^-24, to first order, a result of softmax is off by |x - m| (the difference is rounded)
 * + 2 (the exponential) + 3 (1 / S, the product, and S in f32) + the mean of |x - m| + 2 over the weights, and
 * at most 34 for the sum: 32 weights are added in f32, and such sums in f64.
 *
 * What is read in parts has a pair (m, S) for each of them. Pairs join by S = sum of S_p e^(m_p - m)
 * (M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018).
 *
 * A NaN is never the largest, but makes S NaN, and so does +Infinity. If a part holds nothing but -Infinity, 0
 * replaces m for its sum, which is then 0 and not NaN. If the whole row does, m - m makes it NaN.
 */

/** Weights that are added in f32: vectors of a row, or lines of a panel. */
export const weightsPerFold = 32;

/** The most columns of a panel; a multiple of 4. */
export const panelColumns = 512;

/** Bytes of a pair of a row: S, then m. */
export const rowPairBytes = 16;

/** Where the pairs of a panel have S (f64) and m of their columns, and their size. */
export const panelLargest: number = 8 * panelColumns;
export const panelPairsBytes: number = 12 * panelColumns;

export type Parameters<Names extends string> = Readonly<Record<Names, "i32">>;

export const lowest: number = Number.NEGATIVE_INFINITY;

/** m, or 0 for -Infinity. */
export function referenceOf(f: FunctionBuilder): (largest: VectorLocal) => VectorLocal {
  const none = f.let(f32x4.const(lowest));
  return (largest) => f.let(v128.andnot(largest, f32x4.eq(largest, none)));
}

// Rows: the last axis.

/** The largest of `count` elements, in all lanes. */
export function largestFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`softmax_largest_${dtype}`, (label) =>
    module.functionOf("v128", label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const elements = elementsOf(f, dtype);
      const below = lanesBelow(f);
      const none = f.let(f32x4.const(lowest));
      const parts = [0, 1, 2, 3].map(() => f.let(none));
      const [first, ...others] = parts as [VectorLocal, ...VectorLocal[]];
      const step = 4 * elements.bytes;
      f.while(i32.geS(count, 16), () => {
        for (const [i, part] of parts.entries()) f.set(part, f32x4.pmax(part, elements.load(at, step * i)));
        f.add(at, 4 * step);
        f.add(count, -16);
      });
      f.while(i32.gtS(count, 0), () => {
        f.set(first, f32x4.pmax(first, f.choose(elements.load(at), none, below(count))));
        f.add(at, step);
        f.add(count, -4);
      });
      for (const part of others) f.set(first, f32x4.pmax(first, part));
      return acrossLanes(f, first, f32x4.pmax);
    }),
  );
}

/** Puts all lanes together, in all lanes. */
function acrossLanes(
  f: FunctionBuilder,
  x: VectorLocal,
  combine: (a: Value<"v128">, b: Value<"v128">) => Value<"v128">,
): Value<"v128"> {
  const halves = f.let(combine(x, shuffle32([2, 3, 0, 1], x, x)));
  return combine(halves, shuffle32([1, 0, 3, 2], halves, halves));
}

/** Bytes of the extremes of a row: the largest element in all lanes, then the smallest one. */
export const extremesBytes = 32;

/** Finds the extremes of a row while something else is done for each of its vectors. */
interface Extremes {
  readonly take: (offset?: number) => void;
  readonly takeLast: (remaining: Local<"i32">) => void;
  readonly store: () => void;
}

function extremesOf(f: FunctionBuilder, elements: Elements, at: Local<"i32">, to: Local<"i32">): Extremes {
  const below = lanesBelow(f);
  const [none, most] = [f.let(f32x4.const(lowest)), f.let(f32x4.const(-lowest))];
  const [largest, smallest] = [f.let(none), f.let(most)];
  const put = (high: Value<"v128">, low: Value<"v128">) => {
    f.set(largest, f32x4.pmax(largest, high));
    f.set(smallest, f32x4.pmin(smallest, low));
  };
  return {
    take(offset = 0) {
      const x = f.let(elements.load(at, offset));
      put(x, x);
    },
    takeLast(remaining) {
      const x = f.let(elements.load(at));
      const isThere = f.let(below(remaining));
      put(f.choose(x, none, isThere), f.choose(x, most, isThere));
    },
    store() {
      f.store(to, acrossLanes(f, largest, f32x4.pmax));
      f.store(to, acrossLanes(f, smallest, f32x4.pmin), 16);
    },
  };
}

/** Stores the extremes of `count` elements. */
export function extremesFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`softmax_extremes_${dtype}`, (label) =>
    module.function(label, { at: "i32", count: "i32", to: "i32" }, (f, { at, count, to }) => {
      const elements = elementsOf(f, dtype);
      const extremes = extremesOf(f, elements, at, to);
      f.while(i32.gtS(count, 0), () => {
        extremes.takeLast(count);
        f.add(at, 4 * elements.bytes);
        f.add(count, -4);
      });
      extremes.store();
    }),
  );
}

/** Whether the weights of a row with these extremes are normal numbers, so that `quickSumFunction` can take them. */
export function areNormal(largest: VectorLocal, smallest: Value<"v128">): Value<"i32"> {
  return f32.le(f32x4.extractLane(0, f32x4.sub(largest, smallest)), f32.const(normalLimit));
}

/** Vectors of a round of `quickSumFunction`: the steps of one wait for each other, and not for those of others. */
const quickVectors = 4;

/**
 * The sum of e^(x - reference) of `count` elements, where no weight is below the normal numbers; a NaN among them makes it NaN.
 * On the way it finds the extremes of the next row, whose elements come from memory while the processor computes.
 */
export function quickSumFunction(
  module: ModuleBuilder,
  dtype: FloatType,
  stored: boolean,
): FunctionReference {
  return module.shared(`softmax_quick_sum_${dtype}_${stored}`, (label) =>
    module.functionOf(
      "f64",
      label,
      { at: "i32", count: "i32", reference: "v128", weights: "i32", next: "i32", extremesTo: "i32" },
      (f, { at, count, reference, weights, next, extremesTo }) => {
        const elements = elementsOf(f, dtype);
        const single = elementsOf(f, "f32");
        const below = lanesBelow(f);
        const exp = normalExponential(f);
        const extremes = extremesOf(f, elements, next, extremesTo);
        const zero = f.let(f32x4.const(0));
        const total = f.let(f64x2.const(0));
        const part = f.local("v128");
        const stop = f.local("i32");
        const step = 4 * elements.bytes;
        const advance = (vectors: number) => {
          for (const place of [at, next]) f.add(place, vectors * step);
          if (stored) f.add(weights, 16 * vectors);
          f.add(count, -4 * vectors);
        };
        f.while(i32.gtS(count, 0), () => {
          f.set(part, zero);
          f.set(stop, i32.maxS(i32.sub(count, 4 * weightsPerFold), 0));
          f.while(i32.geS(i32.sub(count, stop), 4 * quickVectors), () => {
            const all = Array.from({ length: quickVectors }, (_, vector) =>
              exp(f32x4.sub(elements.load(at, step * vector), reference)),
            );
            for (const [vector, weight] of all.entries()) {
              if (stored) f.store(weights, weight, 16 * vector);
              f.set(part, f32x4.add(part, weight));
              extremes.take(step * vector);
            }
            advance(quickVectors);
          });
          f.while(i32.gtS(count, stop), () => {
            const weight = exp(f32x4.sub(elements.load(at), reference));
            if (stored) storeUpTo(f, single, weights, weight, count);
            f.set(part, f32x4.add(part, v128.and(weight, below(count))));
            extremes.takeLast(count);
            advance(1);
          });
          const [low, high] = promote(f, part);
          f.set(total, f64x2.add(total, f64x2.add(low, high)));
        });
        extremes.store();
        return f64.add(f64x2.extractLane(0, total), f64x2.extractLane(1, total));
      },
    ),
  );
}

/** The sum of e^(x - reference) of `count` elements. `stored`: the weights go to `weights`, in f32. */
export function sumFunction(module: ModuleBuilder, dtype: FloatType, stored: boolean): FunctionReference {
  return module.shared(`softmax_sum_${dtype}_${stored}`, (label) =>
    module.functionOf(
      "f64",
      label,
      { at: "i32", count: "i32", reference: "v128", weights: "i32" },
      (f, { at, count, reference, weights }) => {
        const elements = elementsOf(f, dtype);
        const single = elementsOf(f, "f32");
        const below = lanesBelow(f);
        const exp = exponential(f);
        const zero = f.let(f32x4.const(0));
        const total = f.let(f64x2.const(0));
        const part = f.local("v128");
        const stop = f.local("i32");
        f.while(i32.gtS(count, 0), () => {
          f.set(part, zero);
          f.set(stop, i32.maxS(i32.sub(count, 4 * weightsPerFold), 0));
          // One loop for whole vectors and for the last part of one: its branch is predicted well.
          f.while(i32.gtS(count, stop), () => {
            const weight = f.let(exp(f32x4.sub(elements.load(at), reference)));
            if (stored) storeUpTo(f, single, weights, weight, count);
            f.if(i32.ltS(count, 4), () => f.set(weight, v128.and(weight, below(count))));
            f.set(part, f32x4.add(part, weight));
            f.add(at, 4 * elements.bytes);
            f.add(weights, 16);
            f.add(count, -4);
          });
          const [low, high] = promote(f, part);
          f.set(total, f64x2.add(total, f64x2.add(low, high)));
        });
        return f64.add(f64x2.extractLane(0, total), f64x2.extractLane(1, total));
      },
    ),
  );
}

/** e^difference, of one number in all lanes. */
export function weightFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("softmax_weight", (label) =>
    module.functionOf("f64", label, { difference: "v128" }, (f, { difference }) =>
      f64x2.extractLane(0, f64x2.promoteLowF32x4(f.let(exponential(f)(difference)))),
    ),
  );
}

/** What results need of S: 1 / S or ln S, rounded, in all lanes. */
export function lastOf(f: FunctionBuilder, kind: SoftmaxKind, sum: Value<"f64">): VectorLocal {
  if (kind === "softmax") return f.let(f32x4.splat(f32.demoteF64(f64.div(f64.const(1), sum))));
  return f.let(logarithm(f)(f32x4.splat(f32.demoteF64(sum))));
}

/** Results of `count` elements from m and `last`. */
export function emitResults(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  elements: Elements,
  row: { readonly at: Local<"i32">; readonly to: Local<"i32">; readonly count: Local<"i32"> },
  [largest, last]: readonly [largest: VectorLocal, last: VectorLocal],
): void {
  const results = {
    softmax: () => {
      const exp = exponential(f);
      return (difference: Value<"v128">) => f32x4.mul(exp(difference), last);
    },
    logSoftmax: () => (difference: Value<"v128">) => f32x4.sub(difference, last),
  }[kind]();
  mapVectors(f, {
    count: row.count,
    inputs: [{ at: f.let(row.at), elements }],
    output: { at: f.let(row.to), elements },
    compute: (x) => results(f32x4.sub(x!, largest)),
    unroll: kind === "softmax" ? 1 : 4,
  });
}
