import type { FloatType } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i32,
  i32x4,
  type Local,
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
 * One query against all the keys it sees, for few queries (as in text generation). It uses the same online
 * softmax as tiles, but lanes run along the head for both products, so that none are wasted on missing
 * queries and keys are read once, in order.
 */
export function attentionRowKernel(dtype: FloatType): Kernel<AttentionRowTypes> {
  return defineKernel({
    name: `attention_rows_${dtype}`,
    parameters: parameterTypes,
    scratchBytes: 4 * keyTile,
    emit: (f, context) => emitRow(f, context, dtype),
  });
}

/** With masks and windows. */
export function hidingAttentionRowKernel(dtype: FloatType): Kernel<AttentionRowTypes & HidingTypes> {
  return defineKernel({
    name: `attention_rows_hiding_${dtype}`,
    parameters: { ...parameterTypes, ...hidingTypes },
    scratchBytes: 4 * keyTile,
    emit: (f, context) => emitRow(f, context, dtype, context.parameters),
  });
}

function emitRow(
  f: FunctionBuilder,
  { parameters, chunk, scratch: scores, worker }: KernelContext<AttentionRowTypes>,
  dtype: FloatType,
  hiding?: Hiding,
): void {
  const { headSize, queryLength, keyLength } = parameters;
  const elements = elementsOf(f, dtype);
  const float32 = elementsOf(f, "f32");
  const exp = exponential(f);
  const scale = f.let(f32x4.splat(parameters.scale));
  const minusInfinity = f.let(f32x4.const(Number.NEGATIVE_INFINITY));
  const laneNumbers = f.let(i32x4.const(0, 1, 2, 3));

  const query = f.let(i32.add(parameters.workspace, i32.mul(worker, parameters.workspaceBytes)));
  const sums = f.let(i32.add(query, parameters.sums));
  const rowSize = f.let(i32.shl(headSize, elements.shift));
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
  const largest = f.let(minusInfinity);
  const total = f.let(f32x4.const(0));
  f.forRange(
    start,
    seen,
    (first) => {
      const count = f.let(i32.minU(i32.sub(seen, first), keyTile));
      // Scores, four keys at a time; those past the last are -Infinity.
      f.forRange(
        0,
        count,
        (key) => {
          const dots = f.let(emitDots(f, elements, { keys, key, count, query, headSize, rowSize }));
          const present = i32x4.gtS(i32x4.splat(i32.sub(count, key)), laneNumbers);
          const masked = v128.bitselect(f32x4.mul(dots, scale), minusInfinity, present);
          f.store(i32.add(scores, i32.shl(key, 2)), masked);
        },
        { step: 4 },
      );
      if (hiding !== undefined) {
        const query = i32.mul(i32.remU(chunk, queryLength), hiding.maskQuery);
        const place = i32.add(query, i32.mul(first, hiding.maskKey));
        const mask = f.let(i32.add(maskOfHead(hiding, parameters.heads, head), place));
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
      f.set(total, f32x4.mul(total, correction));
      f.forRange(
        scores,
        end,
        (at) => {
          const probability = f.let(exp(f.let(f32x4.sub(v128.load(at), reference))));
          f.set(total, f32x4.add(total, probability));
          f.store(at, probability);
        },
        { step: 16 },
      );
      emitSums(f, elements, { values, scores, sums, correction, count, headSize, rowSize });
      f.add(keys, i32.mul(count, rowSize));
      f.add(values, i32.mul(count, rowSize));
    },
    { step: keyTile },
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

/** query . k[key + i] in lane i; the last key is repeated if there are fewer than four. */
function emitDots(
  f: FunctionBuilder,
  elements: Elements,
  tile: {
    readonly keys: Local<"i32">;
    readonly key: Local<"i32">;
    readonly count: Local<"i32">;
    readonly query: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly rowSize: Local<"i32">;
  },
): Vector {
  const { keys, key, count, headSize, rowSize } = tile;
  const rows = Array.from({ length: rowVectors }, (_, r) => {
    const row = i32.minU(i32.add(key, r), i32.sub(count, 1));
    return f.let(i32.add(keys, i32.mul(row, rowSize)));
  });
  const dots = rows.map(() => f.let(f32x4.const(0)));
  const query = f.let(tile.query);
  const remaining = f.let(headSize);
  f.while(i32.geU(remaining, 4), () => {
    const factor = f.let(v128.load(query));
    for (const [r, row] of rows.entries()) {
      f.set(dots[r]!, f32x4.add(dots[r]!, f32x4.mul(factor, elements.load(row))));
      f.add(row, 4 * elements.bytes);
    }
    f.add(query, 16);
    f.set(remaining, i32.sub(remaining, 4));
  });
  f.if(remaining, () => {
    const present = f.let(i32x4.gtS(i32x4.splat(remaining), i32x4.const(0, 1, 2, 3)));
    // Past the row lie other keys, or anything at all.
    const factor = f.let(v128.and(v128.load(query), present));
    for (const [r, row] of rows.entries()) {
      const product = f32x4.mul(factor, v128.and(elements.load(row), present));
      f.set(dots[r]!, f32x4.add(dots[r]!, product));
    }
  });
  // Lane sums of four vectors: two rounds of adding lanes that shuffles bring together.
  const [a, b, c, d] = dots as readonly Vector[] as readonly [Vector, Vector, Vector, Vector];
  const ab = f.let(f32x4.add(shuffle32([0, 4, 1, 5], a, b), shuffle32([2, 6, 3, 7], a, b)));
  const cd = f.let(f32x4.add(shuffle32([0, 4, 1, 5], c, d), shuffle32([2, 6, 3, 7], c, d)));
  return f32x4.add(shuffle32([0, 1, 4, 5], ab, cd), shuffle32([2, 3, 6, 7], ab, cd));
}

/** sums = sums * correction + sum over the tile's keys of p[j] * v[j]. */
function emitSums(
  f: FunctionBuilder,
  elements: Elements,
  tile: {
    readonly values: Local<"i32">;
    readonly scores: Local<"i32">;
    readonly sums: Local<"i32">;
    readonly correction: Local<"v128">;
    readonly count: Local<"i32">;
    readonly headSize: Local<"i32">;
    readonly rowSize: Local<"i32">;
  },
): void {
  const { values, scores, sums, correction, count, headSize, rowSize } = tile;
  const column = f.let(i32.const(0));
  const columns = (vectors: number): void => {
    const parts = Array.from({ length: vectors }, () => f.let(f32x4.const(0)));
    const from = f.let(i32.add(values, i32.shl(column, elements.shift)));
    const probability = f.let(scores);
    f.forRange(0, count, () => {
      const weight = f.let(v128.load32Splat(probability));
      for (const [i, part] of parts.entries())
        f.set(part, f32x4.add(part, f32x4.mul(weight, elements.load(from, 4 * i * elements.bytes))));
      f.add(from, rowSize);
      f.add(probability, 4);
    });
    const to = f.let(i32.add(sums, i32.shl(column, 2)));
    for (const [i, part] of parts.entries())
      f.store(to, f32x4.add(f32x4.mul(v128.load(to, 16 * i), correction), part), 16 * i);
    f.add(column, 4 * vectors);
  };
  f.while(i32.leU(i32.add(column, 4 * rowVectors), headSize), () => columns(rowVectors));
  // Lanes past the head hold garbage; the sums have room for them.
  f.while(i32.ltU(column, headSize), () => columns(1));
}
