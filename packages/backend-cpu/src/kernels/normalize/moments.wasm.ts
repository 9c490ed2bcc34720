import type { FloatType, NormalizeKind } from "@backplane/core";
import {
  callValue,
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
import { type Elements, elementFormats, elementsOf } from "../elements/index.js";
import { promote } from "../math/index.js";
import { blockElements, lanesBelow } from "../rows/index.js";

/*
 * The moments of some elements are a pair of f64: their mean m, and V, the sum of (x - m)^2; for rms, 0 and the sum of
 * x^2. What is read in parts has a pair for each of them. Two pairs of n and k elements join to
 * (m + d k / (n + k), V + W + d^2 n k / (n + k)) with d the distance of their means (T. Chan, G. Golub, R. LeVeque,
 * "Algorithms for computing the sample variance", American Statistician 37, 1983).
 *
 * Sums are of d = x - c, with c close to the elements: S of d, and Q of d^2. Then V = Q - S^2 / n, in which little
 * cancels as long as (S / n)^2 is at most V / n. If it is more, the elements are read again, with c the mean that S
 * gives. In units of 2^-24, to first order, V is off by 2 (the differences) + 1 (squares) + 18 (sums), twice that for
 * what cancels. Equal elements have a c that is one of them, so that all d are 0.
 */

/** Vectors that are added to one sum in f32 before these are added in f64. */
const vectorsPerFold = 16;

/** Sums side by side. */
const chains = 4;

/** Elements whose mean is c at first. Of normally distributed ones, it is within half a deviation of their mean. */
const sampled = 16;

function addAcross(values: Local<"v128">): Value<"f64"> {
  return f64.add(f64x2.extractLane(0, values), f64x2.extractLane(1, values));
}

/** (S, Q) of `count` elements around `center`, which is in all lanes; for rms (0, the sum of x^2). */
function sumsFunction(module: ModuleBuilder, kind: NormalizeKind, dtype: FloatType): FunctionReference {
  return module.shared(`normalize_sums_${kind}_${dtype}`, (label) =>
    module.functionOf(
      "v128",
      label,
      { at: "i32", count: "i32", center: "v128" },
      (f, { at, count, center }) => {
        const elements = elementsOf(f, dtype);
        const below = lanesBelow(f);
        const zero = f.let(f32x4.const(0));
        const step = 4 * elements.bytes;
        const isLayer = kind === "layer";
        const sums = Array.from({ length: isLayer ? chains : 0 }, () => f.local("v128"));
        const squares = Array.from({ length: chains }, () => f.local("v128"));
        const all = [...sums, ...squares];
        const sum = f.let(f64x2.const(0));
        const square = f.let(f64x2.const(0));
        const add = (chain: number, d: Local<"v128">): void => {
          if (isLayer) f.set(sums[chain]!, f32x4.add(sums[chain]!, d));
          f.set(squares[chain]!, f.multiplyAdd(d, d, squares[chain]!));
        };
        const difference = (x: Value<"v128">): Value<"v128"> => (isLayer ? f32x4.sub(x, center) : x);
        const tree = ([a, b, c, d]: readonly Local<"v128">[]): Value<"v128"> =>
          f32x4.add(f32x4.add(a!, b!), f32x4.add(c!, d!));
        const fold = (chains: readonly Local<"v128">[], total: Local<"v128">): void => {
          const [low, high] = promote(f, f.let(tree(chains)));
          f.set(total, f64x2.add(total, f64x2.add(low, high)));
        };
        const stop = f.local("i32");
        f.while(i32.gtS(count, 0), () => {
          for (const chain of all) f.set(chain, zero);
          f.set(stop, i32.maxS(i32.sub(count, 4 * chains * vectorsPerFold), 0));
          f.while(i32.geS(i32.sub(count, stop), 4 * chains), () => {
            for (let i = 0; i < chains; i++) add(i, f.let(difference(elements.load(at, step * i))));
            f.add(at, chains * step);
            f.add(count, -4 * chains);
          });
          // What is left fills no round, and comes last.
          f.while(i32.gtS(count, stop), () => {
            const d = f.let(difference(elements.load(at)));
            f.if(i32.ltS(count, 4), () => f.set(d, v128.and(d, below(count))));
            add(0, d);
            f.add(at, step);
            f.add(count, -4);
          });
          if (isLayer) fold(sums, sum);
          fold(squares, square);
        });
        return f64x2.replaceLane(1, f64x2.splat(addAcross(sum)), addAcross(square));
      },
    ),
  );
}

/** A number close to the elements, in all lanes: one of them, or the mean of the first ones if there are enough. */
function emitCenter(
  f: FunctionBuilder,
  elements: Elements,
  at: Local<"i32">,
  count: Local<"i32">,
): Local<"v128"> {
  const center = f.let(elements.loadSplat(at));
  f.if(i32.geS(count, sampled), () => {
    const [a, b, c, d] = [0, 1, 2, 3].map((i) => f.let(elements.load(at, 4 * i * elements.bytes)));
    f.set(center, f32x4.add(f32x4.add(a!, b!), f32x4.add(c!, d!)));
    f.set(center, f32x4.add(center, shuffle32([2, 3, 0, 1], center, center)));
    f.set(center, f32x4.add(center, shuffle32([1, 0, 3, 2], center, center)));
    f.set(center, f32x4.mul(center, f32x4.const(1 / sampled)));
  });
  return center;
}

/** The moments of `count` elements, at most as many as the cache holds: they may be read twice. */
function blockMomentsFunction(
  module: ModuleBuilder,
  kind: NormalizeKind,
  dtype: FloatType,
): FunctionReference {
  return module.shared(`normalize_block_${kind}_${dtype}`, (label) =>
    module.functionOf("v128", label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const sumsOf = sumsFunction(module, kind, dtype);
      const center = f.let(f32x4.const(0));
      if (kind === "rms") return callValue("v128", sumsOf, at, count, center);
      f.set(center, emitCenter(f, elementsOf(f, dtype), at, count));
      const sums = f.local("v128");
      const shift = f.local("f64");
      const variation = f.local("f64");
      const square = f.local("f64");
      const measure = (): void => {
        f.set(sums, callValue("v128", sumsOf, at, count, center));
        f.set(shift, f64.div(f64x2.extractLane(0, sums), f64.convertI32S(count)));
        f.set(square, f64.mul(f64x2.extractLane(0, sums), shift));
        f.set(variation, f64.sub(f64x2.extractLane(1, sums), square));
      };
      const mean = (): Value<"f64"> => f64.add(f64.promoteF32(f32x4.extractLane(0, center)), shift);
      measure();
      f.if(f64.gt(square, variation), () => {
        f.set(center, f32x4.splat(f32.demoteF64(mean())));
        measure();
      });
      // Rounding may leave less than nothing.
      const positive = f64.max(variation, f64.const(0));
      return f64x2.replaceLane(1, f64x2.splat(mean()), positive);
    }),
  );
}

/** The moments of `count` elements. */
export interface Moments {
  readonly mean: Local<"f64">;
  readonly variation: Local<"f64">;
  readonly count: Local<"f64">;
}

export function noMoments(f: FunctionBuilder): Moments {
  return {
    mean: f.let(f64.const(0)),
    variation: f.let(f64.const(0)),
    count: f.let(f64.const(0)),
  };
}

/** Joins moments with those of so many more elements. */
export function emitJoin(
  f: FunctionBuilder,
  { mean, variation, count }: Moments,
  more: Local<"v128">,
  elements: Value<"f64">,
): void {
  const k = f.let(elements);
  const total = f.let(f64.add(count, k));
  const distance = f.let(f64.sub(f64x2.extractLane(0, more), mean));
  const share = f.let(f64.mul(distance, f64.div(k, total)));
  // d^2 n k / (n + k), which is 0 for the first of them.
  const apart = f64.mul(f64.mul(distance, share), count);
  f.set(variation, f64.add(variation, f64.add(f64x2.extractLane(1, more), apart)));
  f.set(mean, f64.add(mean, share));
  f.set(count, total);
}

/** The moments of `count` elements. */
export function momentsFunction(
  module: ModuleBuilder,
  kind: NormalizeKind,
  dtype: FloatType,
): FunctionReference {
  return module.shared(`normalize_moments_${kind}_${dtype}`, (label) =>
    module.functionOf("v128", label, { at: "i32", count: "i32" }, (f, { at, count }) => {
      const blockOf = blockMomentsFunction(module, kind, dtype);
      const result = f.local("v128");
      f.if(
        i32.leS(count, blockElements),
        () => f.set(result, callValue("v128", blockOf, at, count)),
        () => {
          const moments = noMoments(f);
          const block = f.local("i32");
          f.while(i32.gtS(count, 0), () => {
            f.set(block, i32.minS(count, blockElements));
            const more = f.let(callValue("v128", blockOf, at, block));
            emitJoin(f, moments, more, f64.convertI32S(block));
            f.add(at, i32.shl(block, elementFormats[dtype].shift));
            f.set(count, i32.sub(count, block));
          });
          f.set(result, f64x2.replaceLane(1, f64x2.splat(moments.mean), moments.variation));
        },
      );
      return result;
    }),
  );
}
