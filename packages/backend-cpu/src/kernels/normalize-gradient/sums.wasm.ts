import type { FloatType, NormalizeKind } from "@backplane/core";
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
import { promote } from "../math/index.js";
import type { RowFactors } from "../normalize/index.js";
import { lanesBelow } from "../rows/index.js";
import { mapToVectors, type Stream } from "../vector/index.js";

/*
 * With h = (x - m) r (rms: x r), g = dy weight, and the means c of g (rms: 0) and d of g h over a row,
 * dx = r (g - c - h d); the gradients of weight and bias are the sums of dy h and dy over all rows.
 *
 * A row's terms are added in f32, 16 vectors at most, and such sums in f64: in units of 2^-24, to first order, c and d are off by
 * 4 (h and the products) + 18 + 1 (in f32) of the means of their terms' magnitudes. Rows of a chunk are added in f32, 32 at
 * most, and such sums in f64, as are those of chunks: a gradient of weight or bias is off by 4 + 32 + 1 of the sum of its
 * terms' magnitudes, however many rows there are.
 */

/** Vectors that are added to one sum in f32 before these are added in f64. */
const vectorsPerFold = 16;

/** Sums side by side. */
const chains = 2;

/** Rows that are added in f32 before their sums are added in f64. */
export const rowsPerFold = 32;

/** What a kernel is made for; everything else is a parameter. */
export interface GradientTile {
  readonly kind: NormalizeKind;
  readonly dtype: FloatType;
  /** Whether it writes gradients of the input, and whether these depend on a weight. */
  readonly result: boolean;
  readonly weight: boolean;
  /** Whether it adds up the gradients of weight and bias. */
  readonly sums: boolean;
}

export function nameOf({ kind, dtype, result, weight, sums }: GradientTile): string {
  return `${kind}_${dtype}${result ? "_result" : ""}${weight ? "_weight" : ""}${sums ? "_sums" : ""}`;
}

function normalized(kind: NormalizeKind, x: Value<"v128">, { mean, inverse }: RowFactors): Value<"v128"> {
  return f32x4.mul(kind === "layer" ? f32x4.sub(x, mean) : x, inverse);
}

/** (the sum of g, the sum of g h) of `count` elements of a row */
export function rowSumsFunction(
  module: ModuleBuilder,
  { kind, dtype, weight }: Pick<GradientTile, "kind" | "dtype" | "weight">,
): FunctionReference {
  return module.shared(`normalize_gradient_sums_${kind}_${dtype}_${weight}`, (label) =>
    module.functionOf(
      "v128",
      label,
      { x: "i32", dy: "i32", factors: "i32", count: "i32", mean: "v128", inverse: "v128" },
      (f, { x, dy, factors, count, mean, inverse }) => {
        const elements = elementsOf(f, dtype);
        const below = lanesBelow(f);
        const zero = f.let(f32x4.const(0));
        const step = 4 * elements.bytes;
        const plain = Array.from({ length: chains }, () => f.local("v128"));
        const products = Array.from({ length: chains }, () => f.local("v128"));
        const total = f.let(f64x2.const(0));
        const stop = f.local("i32");
        /** Adds the terms of four elements to one of the chains; of the last ones `remaining` count. */
        const add = (vector: number, chain: number, remaining?: Local<"i32">): void => {
          const own = elements.load(dy, step * vector);
          const g = f.let(weight ? f32x4.mul(own, elements.load(factors, step * vector)) : own);
          const h = f.let(normalized(kind, elements.load(x, step * vector), { mean, inverse }));
          if (remaining !== undefined)
            f.if(i32.ltS(remaining, 4), () => {
              f.set(g, v128.and(g, below(remaining)));
              f.set(h, v128.and(h, below(remaining)));
            });
          f.set(plain[chain]!, f32x4.add(plain[chain]!, g));
          f.set(products[chain]!, f.multiplyAdd(g, h, products[chain]!));
        };
        const advance = (vectors: number): void => {
          for (const at of weight ? [x, dy, factors] : [x, dy]) f.add(at, vectors * step);
          f.add(count, -4 * vectors);
        };
        const across = ([a, b]: readonly Local<"v128">[]): Value<"f64"> => {
          const [low, high] = promote(f, f.let(f32x4.add(a!, b!)));
          const both = f.let(f64x2.add(low, high));
          return f64.add(f64x2.extractLane(0, both), f64x2.extractLane(1, both));
        };
        f.while(i32.gtS(count, 0), () => {
          for (const chain of [...plain, ...products]) f.set(chain, zero);
          f.set(stop, i32.maxS(i32.sub(count, 4 * chains * vectorsPerFold), 0));
          f.while(i32.geS(i32.sub(count, stop), 4 * chains), () => {
            for (let i = 0; i < chains; i++) add(i, i);
            advance(chains);
          });
          // What is left fills no round, and comes last.
          f.while(i32.gtS(count, stop), () => {
            add(0, 0, count);
            advance(1);
          });
          const more = f64x2.replaceLane(1, f64x2.splat(across(plain)), across(products));
          f.set(total, f64x2.add(total, more));
        });
        return total;
      },
    ),
  );
}

/** The means c and d of a row of `length` elements, in f32 and in all lanes. */
export function emitMeans(
  f: FunctionBuilder,
  kind: NormalizeKind,
  sums: Local<"v128">,
  length: Local<"i32">,
): readonly [c: Local<"v128">, d: Local<"v128">] {
  const count = f.let(f64.convertI32S(length));
  const mean = (lane: 0 | 1) =>
    f.let(f32x4.splat(f32.demoteF64(f64.div(f64x2.extractLane(lane, sums), count))));
  return [kind === "layer" ? mean(0) : f.let(f32x4.const(0)), mean(1)];
}

/** Where `count` elements of a row begin, and the f32 sums of their columns (of dy h, then of dy). */
export type Segment = Readonly<
  Record<"x" | "dy" | "dx" | "factors" | "weightSums" | "biasSums" | "count", Value<"i32">>
>;

/** Writes results, and adds to the sums of columns. `means` are those of the row, if there are results. */
export function emitSegment(
  f: FunctionBuilder,
  { kind, dtype, result, weight, sums }: GradientTile,
  segment: Segment,
  factors: RowFactors,
  means: readonly [c: Local<"v128">, d: Local<"v128">] | undefined,
): void {
  const elements = elementsOf(f, dtype);
  const single = elementsOf(f, "f32");
  const stream = (at: Value<"i32">, own = elements): Stream => ({ at: f.let(at), elements: own });
  const totals = sums ? [stream(segment.weightSums, single), stream(segment.biasSums, single)] : [];
  const weights = result && weight ? [stream(segment.factors)] : [];
  mapToVectors(f, {
    count: segment.count,
    inputs: [stream(segment.x), stream(segment.dy), ...totals, ...weights],
    outputs: [...(result ? [stream(segment.dx)] : []), ...totals],
    compute(x, dy, ...others) {
      const h = f.let(normalized(kind, x!, factors));
      const added = sums ? [f.multiplyAdd(dy!, h, others[0]!), f32x4.add(others[1]!, dy!)] : [];
      if (means === undefined) return added;
      const g = weight ? f32x4.mul(dy!, others.at(-1)!) : dy!;
      const rest = kind === "layer" ? f32x4.sub(g, means[0]) : g;
      return [f32x4.mul(f32x4.sub(rest, f32x4.mul(h, means[1])), factors.inverse), ...added];
    },
    unroll: 1,
  });
}

/**
 * The sums of `width` columns, a multiple of 4: of dy h and of dy in f64, then those of the last rows in f32. Offsets are in
 * bytes for each column.
 */
export const sumsLayout: Readonly<Record<"bias" | "lastWeight" | "lastBias" | "bytes", number>> = {
  bias: 8,
  lastWeight: 16,
  lastBias: 20,
  bytes: 24,
};

/** Adds the sums in f32 to those in f64, and sets them to 0. */
export function foldFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("normalize_gradient_fold", (label) =>
    module.function(label, { sums: "i32", width: "i32" }, (f, { sums, width }) => {
      const zero = f.let(f32x4.const(0));
      const last = f.let(i32.add(sums, i32.mul(width, sumsLayout.lastWeight)));
      const end = f.let(i32.add(sums, i32.mul(width, sumsLayout.bytes)));
      f.forRange(
        last,
        end,
        (at) => {
          const [low, high] = promote(f, f.let(v128.load(at)));
          f.store(sums, f64x2.add(v128.load(sums), low));
          f.store(sums, f64x2.add(v128.load(sums, 16), high), 16);
          f.store(at, zero);
          f.add(sums, 32);
        },
        { step: 16 },
      );
    }),
  );
}
