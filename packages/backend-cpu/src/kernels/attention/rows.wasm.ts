import type { FloatType } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  type FunctionReference,
  f32x4,
  i32,
  i32x4,
  type Local,
  type ModuleBuilder,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { type Elements, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel, type KernelContext } from "../kernel.js";
import { exponential, logarithm } from "../math/index.js";
import { mapVectors } from "../vector/index.js";
import {
  emitMasked,
  type Hiding,
  type HidingTypes,
  hidingTypes,
  maskKinds,
  maskOfHead,
  totalOrOne,
} from "./hiding.wasm.js";
import { keyTile } from "./layout.js";

const parameterTypes = {
  q: "i32",
  k: "i32",
  v: "i32",
  out: "i32",
  /** 0: it is not stored. */
  logSumExp: "i32",
  heads: "i32",
  kvHeads: "i32",
  /** Query heads for each key head. */
  group: "i32",
  queryLength: "i32",
  keyLength: "i32",
  /** Rows from one key head to the next. */
  keyPitch: "i32",
  headSize: "i32",
  scale: "f32",
  /** Query i sees the keys j <= i + visible; signed. */
  visible: "i32",
  /** Address of the first worker's workspace, and bytes to the next one's. */
  workspace: "i32",
  workspaceBytes: "i32",
  /** Offset of the sums within it; the query is at its start. */
  sums: "i32",
} as const;

export type AttentionRowTypes = typeof parameterTypes;

type Vector = Value<"v128">;

const rowVectors = 4;

/**
 * Scores are turned into probabilities for `keyTile` keys at a time or, if keys are short, for as many as have this many bytes, up
 * to `mostKeys`: every step on a tile waits for the one before, so few long tiles are 1.07 times as fast.
 */
const tileBytes = 1 << 15;
const mostKeys = 1024;

/**
 * One query against all the keys it sees, for few queries (as in text generation). It uses the same online
 * softmax as tiles, but lanes run along the head for both products, so that none are wasted on missing
 * queries and keys are read once, in order.
 */
export function attentionRowKernel(dtype: FloatType): Kernel<AttentionRowTypes> {
  return defineKernel({
    name: `attention_rows_${dtype}`,
    parameters: parameterTypes,
    scratchBytes: 4 * mostKeys,
    emit: (f, context) => emitRow(f, context, dtype),
  });
}

/** With masks and windows. */
export function hidingAttentionRowKernel(dtype: FloatType): Kernel<AttentionRowTypes & HidingTypes> {
  return defineKernel({
    name: `attention_rows_hiding_${dtype}`,
    parameters: { ...parameterTypes, ...hidingTypes },
    scratchBytes: 4 * mostKeys,
    emit: (f, context) => emitRow(f, context, dtype, context.parameters),
  });
}

function emitRow(
  f: FunctionBuilder,
  { parameters, chunk, scratch: scores, worker, module }: KernelContext<AttentionRowTypes>,
  dtype: FloatType,
  hiding?: Hiding,
): void {
  const { headSize, queryLength, keyLength } = parameters;
  const elements = elementsOf(f, dtype);
  const float32 = elementsOf(f, "f32");
  const exp = exponential(f);
  const scoresOf = scoresFunction(module, dtype);
  const weightsOf = weightsFunction(module);
  const sumsOf = sumsFunction(module, dtype);
  const scale = f.let(f32x4.splat(parameters.scale));
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));

  const query = f.let(i32.add(parameters.workspace, i32.mul(worker, parameters.workspaceBytes)));
  const sums = f.let(i32.add(query, parameters.sums));
  const rowSize = f.let(i32.shl(headSize, elements.shift));
  const near = i32.minU(i32.and(i32.divU(tileBytes, rowSize), -rowVectors), mostKeys);
  const tile = f.let(i32.maxU(near, keyTile));
  const head = f.let(i32.divU(chunk, queryLength));
  const keyHead = i32.add(
    i32.mul(i32.divU(head, parameters.heads), parameters.kvHeads),
    i32.divU(i32.remU(head, parameters.heads), parameters.group),
  );
  const keyOffset = f.let(i32.mul(i32.mul(keyHead, parameters.keyPitch), rowSize));
  const queryOffset = f.let(i32.mul(chunk, rowSize));
  mapVectors(f, {
    count: headSize,
    inputs: [{ at: f.let(i32.add(parameters.q, queryOffset)), elements }],
    output: { at: f.let(query), elements: float32 },
    compute: (values) => values!,
    unroll: 1,
  });
  f.memoryFill(sums, 0, i32.shl(headSize, 2));

  const last = i32.add(i32.remU(chunk, queryLength), parameters.visible);
  const seen = f.let(i32.minS(i32.maxS(i32.add(last, 1), 0), keyLength));
  const keys = f.let(i32.add(parameters.k, keyOffset));
  const values = f.let(i32.add(parameters.v, keyOffset));
  const start =
    hiding === undefined ? 0 : emitStart(f, hiding, { chunk, queryLength, keys, values, rowSize });
  const maskRow =
    hiding &&
    f.let(
      i32.add(
        maskOfHead(hiding, parameters.heads, head),
        i32.mul(i32.remU(chunk, queryLength), hiding.maskQuery),
      ),
    );
  if (hiding !== undefined && maskRow !== undefined) emitHiddenEnd(f, hiding, { maskRow, start, seen });
  const largest = f.let(minusInfinity);
  const total = f.let(f32x4.const(0));
  f.forRange(
    start,
    seen,
    (first) => {
      const count = f.let(i32.minU(i32.sub(seen, first), tile));
      f.call(scoresOf, keys, count, query, scores, scale, headSize, rowSize);
      if (hiding !== undefined && maskRow !== undefined) {
        const mask = f.let(i32.add(maskRow, i32.mul(first, hiding.maskKey)));
        emitMasked(f, hiding, { scores, scoreBytes: 4, count, mask, maskStep: hiding.maskKey });
      }
      const end = f.let(i32.add(scores, i32.shl(count, 2)));
      const before = f.let(largest);
      // A NaN does not count as the largest: it makes its own probability NaN and with it the sum.
      f.forRange(scores, end, (at) => f.set(largest, f32x4.pmax(largest, v128.load(at))), { step: 16 });
      for (const lanes of [[2, 3, 0, 1] as const, [1, 0, 3, 2] as const])
        f.set(largest, f32x4.pmax(largest, shuffle32(lanes, largest, largest)));
      // If every score so far is -Infinity, 0 replaces the maximum: the probabilities are then 0, not NaN.
      const reference = f.let(v128.andnot(largest, f32x4.eq(largest, minusInfinity)));
      const correction = f.let(exp(f.let(f32x4.sub(before, reference))));
      const weights = callValue("v128", weightsOf, scores, end, reference);
      f.set(total, f.multiplyAdd(total, correction, weights));
      f.call(sumsOf, values, scores, sums, correction, count, headSize, rowSize);
      f.add(keys, i32.mul(count, rowSize));
      f.add(values, i32.mul(count, rowSize));
    },
    { step: tile },
  );

  for (const lanes of [[2, 3, 0, 1] as const, [1, 0, 3, 2] as const])
    f.set(total, f32x4.add(total, shuffle32(lanes, total, total)));
  f.if(parameters.logSumExp, () => {
    const to = f.let(i32.add(parameters.logSumExp, i32.shl(chunk, 2)));
    f.storeLane(32, 0, to, f.let(f32x4.add(largest, logarithm(f)(total))));
  });
  // Without a key the sums are 0: divide by 1.
  if (hiding === undefined) f.if(i32.eqz(seen), () => f.set(total, f32x4.const(1)));
  else totalOrOne(f, total);
  mapVectors(f, {
    count: headSize,
    inputs: [{ at: sums, elements: float32 }, total],
    output: { at: f.let(i32.add(parameters.out, queryOffset)), elements },
    compute: (sum, divisor) => f32x4.div(sum!, divisor!),
    unroll: 1,
  });
}

/** Moves to the first key that the query sees, and returns its number. */
function emitStart(
  f: FunctionBuilder,
  hiding: Hiding,
  {
    chunk,
    queryLength,
    keys,
    values,
    rowSize,
  }: Readonly<Record<"chunk" | "queryLength" | "keys" | "values" | "rowSize", Local<"i32">>>,
): Local<"i32"> {
  const start = f.let(i32.maxS(i32.add(i32.remU(chunk, queryLength), hiding.oldest), 0));
  const bytes = f.let(i32.mul(start, rowSize));
  f.add(keys, bytes);
  f.add(values, bytes);
  return start;
}

/**
 * Takes keys from the end of those that are seen, 16 at a time, if a mask of truth values hides them: text generation reaches past
 * its last token, and texts of a batch are filled up.
 */
function emitHiddenEnd(
  f: FunctionBuilder,
  { maskKind, maskKey }: Hiding,
  keys: { readonly maskRow: Local<"i32">; readonly start: Local<"i32"> | 0; readonly seen: Local<"i32"> },
): void {
  const { maskRow, start, seen } = keys;
  f.if(i32.and(i32.eq(maskKind, maskKinds.u8), i32.eq(maskKey, 1)), () => {
    f.block((done) => {
      f.loop((again) => {
        f.brIf(done, i32.ltS(i32.sub(seen, start), 16));
        f.brIf(done, v128.anyTrue(v128.load(i32.add(maskRow, i32.sub(seen, 16)))));
        f.set(seen, i32.sub(seen, 16));
        f.br(again);
      });
    });
  });
}

// Each loop is a function of its own, which need not share the registers with the others: 1.04 times as fast on Node.js 20.

/** scores[i] = query . k[i] * scale for all keys of a tile; -Infinity in lanes past the last one. */
function scoresFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`attention_row_scores_${dtype}`, (label) =>
    module.function(
      label,
      {
        ...({ keys: "i32", count: "i32", query: "i32", scores: "i32", scale: "v128" } as const),
        ...({ headSize: "i32", rowSize: "i32" } as const),
      },
      (f, { keys, count, query, scores, scale, headSize, rowSize }) => {
        const elements = elementsOf(f, dtype);
        const rows = Array.from({ length: rowVectors }, (_, r) => f.let(i32.add(keys, i32.mul(rowSize, r))));
        const onward = f.let(i32.mul(rowSize, rowVectors - 1));
        const to = f.let(scores);
        f.forRange(
          0,
          count,
          (key) => {
            // Instead of keys past the last one, it is read again.
            f.if(i32.gtU(i32.add(key, rowVectors), count), () => {
              const last = f.let(i32.add(keys, i32.mul(i32.sub(count, 1), rowSize)));
              for (const row of rows) f.set(row, i32.minU(row, last));
            });
            f.store(to, f32x4.mul(emitDots(f, elements, { rows, query, headSize }), scale));
            for (const row of rows) f.add(row, onward);
            f.add(to, 4 * rowVectors);
          },
          { step: rowVectors },
        );
        f.if(i32.remU(count, rowVectors), () => {
          const present = i32x4.gtS(i32x4.splat(i32.remU(count, rowVectors)), i32x4.const(0, 1, 2, 3));
          const minusInfinity = f32x4.const(Number.NEGATIVE_INFINITY);
          const at = f.let(i32.sub(to, 4 * rowVectors));
          f.store(at, v128.bitselect(v128.load(at), minusInfinity, present));
        });
      },
    ),
  );
}

/** Replaces scores by e^(score - reference), and returns their sums by lanes. */
function weightsFunction(module: ModuleBuilder): FunctionReference {
  return module.shared("attention_row_weights", (label) =>
    module.functionOf(
      "v128",
      label,
      { scores: "i32", end: "i32", reference: "v128" },
      (f, { scores, end, reference }) => {
        const exp = exponential(f);
        const total = f.let(f32x4.const(0));
        f.forLocal(
          scores,
          end,
          () => {
            const weight = exp(f32x4.sub(v128.load(scores), reference));
            f.set(total, f32x4.add(total, weight));
            f.store(scores, weight);
          },
          { step: 16 },
        );
        return total;
      },
    ),
  );
}

/** query . (the key that starts at rows[i]) in lane i. Moves all rows to their ends. */
function emitDots(
  f: FunctionBuilder,
  elements: Elements,
  tile: {
    readonly rows: readonly Local<"i32">[];
    readonly query: Local<"i32">;
    readonly headSize: Local<"i32">;
  },
): Vector {
  const { rows } = tile;
  const dots = rows.map(() => f.let(f32x4.const(0)));
  const query = f.let(tile.query);
  const remaining = f.let(tile.headSize);
  const add = (vectors: number): void => {
    for (let v = 0; v < vectors; v++) {
      const factor = f.let(v128.load(query, 16 * v));
      for (const [r, row] of rows.entries())
        f.set(dots[r]!, f.multiplyAdd(factor, elements.load(row, 4 * elements.bytes * v), dots[r]!));
    }
    for (const row of rows) f.add(row, 4 * elements.bytes * vectors);
    f.add(query, 16 * vectors);
    f.set(remaining, i32.sub(remaining, 4 * vectors));
  };
  f.while(i32.geU(remaining, 8), () => add(2));
  f.if(i32.geU(remaining, 4), () => add(1));
  f.if(remaining, () => {
    const present = f.let(i32x4.gtS(i32x4.splat(remaining), i32x4.const(0, 1, 2, 3)));
    // Past the row lie other keys, or anything at all.
    const factor = f.let(v128.and(v128.load(query), present));
    for (const [r, row] of rows.entries()) {
      const product = f32x4.mul(factor, v128.and(elements.load(row), present));
      f.set(dots[r]!, f32x4.add(dots[r]!, product));
      f.add(row, i32.mul(remaining, elements.bytes));
    }
  });
  // Lane sums of four vectors: two rounds of adding lanes that shuffles bring together.
  const [a, b, c, d] = dots as readonly Vector[] as readonly [Vector, Vector, Vector, Vector];
  const ab = f.let(f32x4.add(shuffle32([0, 4, 1, 5], a, b), shuffle32([2, 6, 3, 7], a, b)));
  const cd = f.let(f32x4.add(shuffle32([0, 4, 1, 5], c, d), shuffle32([2, 6, 3, 7], c, d)));
  return f32x4.add(shuffle32([0, 1, 4, 5], ab, cd), shuffle32([2, 3, 6, 7], ab, cd));
}

/** sums = sums * correction + sum over the tile's keys of p[j] * v[j]. */
function sumsFunction(module: ModuleBuilder, dtype: FloatType): FunctionReference {
  return module.shared(`attention_row_sums_${dtype}`, (label) =>
    module.function(
      label,
      {
        ...({ values: "i32", scores: "i32", sums: "i32", correction: "v128", count: "i32" } as const),
        ...({ headSize: "i32", rowSize: "i32" } as const),
      },
      (f, { values, scores, sums, correction, count, headSize, rowSize }) => {
        const elements = elementsOf(f, dtype);
        const column = f.let(i32.const(0));
        /** Some vectors of the sums, from several values at a time: each sum waits for the one before. */
        const columns = (vectors: number, side: number): void => {
          const parts = Array.from({ length: side }, () =>
            Array.from({ length: vectors }, () => f.let(f32x4.const(0))),
          );
          const from = f.let(i32.add(values, i32.shl(column, elements.shift)));
          const probability = f.let(scores);
          const add = (keys: number): void => {
            for (const [key, sums] of parts.slice(0, keys).entries()) {
              const weight = f.let(v128.load32Splat(probability, 4 * key));
              for (const [i, sum] of sums.entries())
                f.set(sum, f.multiplyAdd(weight, elements.load(from, 4 * i * elements.bytes), sum));
              f.add(from, rowSize);
            }
            f.add(probability, 4 * keys);
          };
          f.forRange(0, i32.divU(count, side), () => add(side));
          if (side > 1) f.forRange(0, i32.remU(count, side), () => add(1));
          const to = f.let(i32.add(sums, i32.shl(column, 2)));
          const [first, ...others] = parts;
          for (const [i, part] of first!.entries()) {
            const sum = others.reduce<Vector>((sum, other) => f32x4.add(sum, other[i]!), part);
            f.store(to, f.multiplyAdd(v128.load(to, 16 * i), correction, sum), 16 * i);
          }
          f.add(column, 4 * vectors);
        };
        f.while(i32.leU(i32.add(column, 16), headSize), () => columns(4, f.relaxedSimd ? 2 : 1));
        f.while(i32.leU(i32.add(column, 8), headSize), () => columns(2, 4));
        // Lanes past the head hold garbage; the sums have room for them.
        f.while(i32.ltU(column, headSize), () => columns(1, 4));
      },
    ),
  );
}
