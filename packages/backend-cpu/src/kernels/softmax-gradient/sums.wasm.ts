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
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { exponential, promote, type VectorLocal } from "../math/index.js";
import { lanesBelow } from "../rows/index.js";
import { mapVectors } from "../vector/index.js";

/*
 * softmax: dx = y (dy - D), D = the sum of y dy; logSoftmax: dx = dy - e^y S, S = the sum of dy. Terms are added in f32,
 * 16 vectors (or 32 lines of a panel) at most, and such sums in f64. In units of 2^-24, to first order, a sum is off by at most
 * 1 (the product) + 18 or 32 (additions) + 1 (D or S in f32) of the sum of its terms' magnitudes.
 */

/** Vectors that are added to one sum in f32 before these are added in f64. */
const vectorsPerFold = 16;

/** Sums side by side. */
const chains = 4;

/** Lines of a panel whose terms are added in f32. */
export const linesPerFold = 32;

/** Adds the term of four elements to a sum. */
export function emitTerm(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  y: Value<"v128">,
  dy: Value<"v128">,
  sum: Value<"v128">,
): Value<"v128"> {
  return kind === "softmax" ? f.multiplyAdd(y, dy, sum) : f32x4.add(sum, dy);
}

/** Emits constants; the function it returns emits four results. */
export function resultsOf(
  f: FunctionBuilder,
  kind: SoftmaxKind,
): (y: Value<"v128">, dy: Value<"v128">, sum: Value<"v128">) => Value<"v128"> {
  if (kind === "softmax") return (y, dy, sum) => f32x4.mul(y, f32x4.sub(dy, sum));
  const exp = exponential(f);
  return (y, dy, sum) => f32x4.sub(dy, f32x4.mul(exp(y), sum));
}

/** The sum of the terms of `count` elements. */
export function sumFunction(module: ModuleBuilder, kind: SoftmaxKind, dtype: FloatType): FunctionReference {
  return module.shared(`softmax_gradient_sum_${kind}_${dtype}`, (label) =>
    module.functionOf("f64", label, { y: "i32", dy: "i32", count: "i32" }, (f, { y, dy, count }) =>
      emitSum(f, kind, dtype, { y, dy, count }),
    ),
  );
}

/** What else a loop over the elements of a row does. */
interface Beside {
  /** With so many vectors of the row. */
  readonly round: (vectors: number) => void;
  /** With the last `count` elements, which fill no round. */
  readonly rest: (count: Local<"i32">) => void;
}

/** Returns the sum. The locals are used up. */
function emitSum(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  dtype: FloatType,
  { y, dy, count }: Readonly<Record<"y" | "dy" | "count", Local<"i32">>>,
  beside?: Beside,
): Value<"f64"> {
  const elements = elementsOf(f, dtype);
  const below = lanesBelow(f);
  const zero = f.let(f32x4.const(0));
  const step = 4 * elements.bytes;
  const parts: VectorLocal[] = Array.from({ length: chains }, () => f.local("v128"));
  const total = f.let(f64x2.const(0));
  const stop = f.local("i32");
  const loads = (vector: number): readonly [Value<"v128">, Value<"v128">] => [
    kind === "softmax" ? elements.load(y, step * vector) : zero,
    elements.load(dy, step * vector),
  ];
  const advance = (vectors: number): void => {
    f.add(y, vectors * step);
    f.add(dy, vectors * step);
    f.add(count, -4 * vectors);
  };
  f.while(i32.gtS(count, 0), () => {
    for (const part of parts) f.set(part, zero);
    f.set(stop, i32.maxS(i32.sub(count, 4 * chains * vectorsPerFold), 0));
    f.while(i32.geS(i32.sub(count, stop), 4 * chains), () => {
      for (const [i, part] of parts.entries()) f.set(part, emitTerm(f, kind, ...loads(i), part));
      beside?.round(chains);
      advance(chains);
    });
    // What is left fills no round, and comes last.
    if (beside !== undefined) f.if(i32.gtS(count, stop), () => beside.rest(count));
    f.while(i32.gtS(count, stop), () => {
      const [first] = parts as [VectorLocal, ...VectorLocal[]];
      const term = f.let(emitTerm(f, kind, ...loads(0), zero));
      f.if(i32.ltS(count, 4), () => f.set(term, v128.and(term, below(count))));
      f.set(first, f32x4.add(first, term));
      advance(1);
    });
    const [a, b, c, d] = parts as [VectorLocal, VectorLocal, VectorLocal, VectorLocal];
    const [low, high] = promote(f, f.let(f32x4.add(f32x4.add(a, b), f32x4.add(c, d))));
    f.set(total, f64x2.add(total, f64x2.add(low, high)));
  });
  return f64.add(f64x2.extractLane(0, total), f64x2.extractLane(1, total));
}

/**
 * Stores the results of a row of softmax, whose sum is given, and returns the sum of the next row, found in the same loop: so the
 * next row comes from memory while this one, which is in the cache, is computed.
 */
export function resultsAndSumFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  const parameters = { ...operandTypes, nextY: "i32", nextDy: "i32", count: "i32", sum: "f64" } as const;
  return module.shared(`softmax_gradient_results_and_sum_${dtype}`, (label) =>
    module.functionOf("f64", label, parameters, (f, { y, dy, dx, nextY, nextDy, count, sum }) => {
      const elements = elementsOf(f, dtype);
      const results = resultsOf(f, "softmax");
      const total = f.let(f32x4.splat(f32.demoteF64(sum)));
      const step = 4 * elements.bytes;
      return emitSum(
        f,
        "softmax",
        dtype,
        { y: nextY, dy: nextDy, count },
        {
          round(vectors) {
            for (let i = 0; i < vectors; i++) {
              const [a, b] = [y, dy].map((at) => f.let(elements.load(at, step * i)));
              elements.store(dx, f.let(results(a!, b!, total)), step * i);
            }
            for (const at of [y, dy, dx]) f.add(at, vectors * step);
          },
          rest(left) {
            const stream = (at: Local<"i32">) => ({ at: f.let(at), elements });
            mapVectors(f, {
              ...{ count: left, inputs: [stream(y), stream(dy), total], output: stream(dx), unroll: 1 },
              compute: (a, b, all) => results(a!, b!, all!),
            });
          },
        },
      );
    }),
  );
}

export type Parameters<Names extends string> = Readonly<Record<Names, "i32">>;

/** The three operands, as a kernel's parameters. */
export const operandTypes = { y: "i32", dy: "i32", dx: "i32" } as const;

/** Their places in a chunk that begins `offset` bytes after their starts. */
export function placesAt(
  f: FunctionBuilder,
  { y, dy, dx }: Readonly<Record<keyof typeof operandTypes, Local<"i32">>>,
  offset: Value<"i32">,
): readonly [y: Local<"i32">, dy: Local<"i32">, dx: Local<"i32">] {
  const from = f.let(offset);
  return [f.let(i32.add(y, from)), f.let(i32.add(dy, from)), f.let(i32.add(dx, from))];
}
