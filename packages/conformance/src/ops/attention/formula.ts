import type { AttentionProblem, MaskAxes, Rows } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { gathered, placesOf } from "./rows.js";
import { attentionTolerance, attentionWeights, logSumExpError, logSumExpTolerance } from "./tolerance.js";

/** Of contiguous operands. */
export interface AttentionShape
  extends Omit<
    AttentionProblem<unknown>,
    "q" | "k" | "v" | "out" | "logSumExp" | "dtype" | "rows" | "keyPitch" | "oldest" | "mask"
  > {
  readonly oldest?: number | undefined;
  readonly mask?: MaskNumbers | undefined;
}

/** The elements of a mask, and their places. */
export interface MaskNumbers {
  /** Or to be added. */
  readonly isBoolean: boolean;
  readonly values: Float64Array;
  readonly strides: MaskAxes;
}

/** The softmax of one query over the keys it sees. */
export interface AttentionRow {
  /** Keys seen, in ascending order. */
  readonly keys: readonly number[];
  /** Roundings of a score, at most. */
  readonly roundings: number;
  /** Score minus the largest score, per key. */
  readonly distances: Float64Array;
  /** |scale| sum |q| |k| + |mask|, per key. */
  readonly magnitudes: Float64Array;
  /** Sums to 1. */
  readonly probabilities: Float64Array;
  readonly largest: number;
  /** -Infinity without keys. */
  readonly logSumExp: number;
}

/** Calls `visit` with each row of queries, and the elements at which it and the rows of its keys start. */
export function forEachRow(
  shape: AttentionShape,
  q: Float64Array,
  k: Float64Array,
  visit: (row: AttentionRow, index: number, keysAt: number) => void,
): void {
  const { batch, heads, kvHeads, queryLength, keyLength, headSize } = shape;
  for (let b = 0; b < batch; b++)
    for (let head = 0; head < heads; head++) {
      const keysAt = (b * kvHeads + Math.floor(head / (heads / kvHeads))) * keyLength * headSize;
      const keys = k.subarray(keysAt, keysAt + keyLength * headSize);
      for (let i = 0; i < queryLength; i++) {
        const index = (b * heads + head) * queryLength + i;
        const query = q.subarray(index * headSize, (index + 1) * headSize);
        visit(attentionRow(shape, query, keys, [b, head, i]), index, keysAt);
      }
    }
}

/**
 * softmax(scale q k^T + mask) v, one query at a time. The magnitude of an element is the sum over the keys of
 * probability * |v| * weight, with the weights that `weigh` returns for the row.
 */
export function attention(
  shape: AttentionShape,
  q: Float64Array,
  k: Float64Array,
  v: Float64Array,
  emit: Emit,
  weigh?: (row: AttentionRow) => Float64Array,
): void {
  const { headSize } = shape;
  forEachRow(shape, q, k, (row, index, keysAt) => {
    const weights = weigh?.(row);
    for (let d = 0; d < headSize; d++) {
      let sum = 0;
      let magnitude = 0;
      for (const [n, j] of row.keys.entries()) {
        const term = row.probabilities[n]! * v[keysAt + j * headSize + d]!;
        sum += term;
        magnitude += Math.abs(term) * (weights?.[n] ?? 1);
      }
      emit(index * headSize + d, sum, magnitude);
    }
  });
}

/** The logarithm of the sum of e^score of each query; its magnitude is its error. */
export function logSumExp(
  shape: AttentionShape,
  q: Float64Array,
  k: Float64Array,
  emit: Emit,
  errorOf: (row: AttentionRow) => number = () => 0,
): void {
  forEachRow(shape, q, k, (row, index) => emit(index, row.logSumExp, errorOf(row)));
}

function attentionRow(
  shape: AttentionShape,
  query: Float64Array,
  allKeys: Float64Array,
  place: readonly [batch: number, head: number, query: number],
): AttentionRow {
  const { headSize, keyLength, scale, visible, oldest, mask } = shape;
  const [b, head, i] = place;
  const maskOf = (j: number) => {
    if (mask === undefined) return 0;
    const { strides, values } = mask;
    const value = values[b * strides[0] + head * strides[1] + i * strides[2] + j * strides[3]]!;
    if (!mask.isBoolean) return value;
    return value === 0 ? Number.NEGATIVE_INFINITY : 0;
  };
  const first = oldest === undefined ? 0 : Math.max(i + oldest, 0);
  const end = Math.min(i + visible + 1, keyLength);
  const keys: number[] = [];
  for (let j = first; j < end; j++) if (maskOf(j) !== Number.NEGATIVE_INFINITY) keys.push(j);
  const distances = Float64Array.from(keys, maskOf);
  const magnitudes = distances.map(Math.abs);
  for (const [n, j] of keys.entries())
    for (let d = 0; d < headSize; d++) {
      const product = scale * query[d]! * allKeys[j * headSize + d]!;
      distances[n]! += product;
      magnitudes[n]! += Math.abs(product);
    }
  const largest = distances.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  for (let n = 0; n < keys.length; n++) distances[n]! -= largest;
  const probabilities = distances.map((distance) => Math.exp(distance));
  const total = probabilities.reduce((a, b) => a + b, 0);
  for (let n = 0; n < keys.length; n++) probabilities[n]! /= total;
  // A mask is converted to powers of two, and added.
  const roundings = headSize + (mask === undefined ? 2 : 4);
  const logSumExp = keys.length === 0 ? largest : largest + Math.log(total);
  return { keys, roundings, distances, magnitudes, probabilities, largest, logSumExp };
}

export const evaluate: Evaluate<AttentionProblem<ReferenceMemory>> = (problem, memory, numerics) => {
  const { dtype, batch, kvHeads, keyLength, keyPitch, headSize, rows = {} } = problem;
  const head = keyPitch * headSize;
  const keyRows: Rows = {
    ...{ extents: [batch, kvHeads, keyLength], size: headSize, strides: [kvHeads * head, head, headSize] },
  };
  const read = (name: "q" | "k" | "v", otherwise: Rows | undefined) => {
    const values = memory.read(problem[name], dtype);
    const own = rows[name] ?? otherwise;
    return own === undefined ? values : gathered(values, own);
  };
  const isRoomy = keyPitch !== keyLength;
  const queries = read("q", undefined);
  const keys = read("k", isRoomy ? keyRows : undefined);
  const values = read("v", isRoomy ? keyRows : undefined);
  const tolerance = numerics && attentionTolerance(keyLength, dtype, numerics);
  const mask = problem.mask && {
    isBoolean: problem.mask.dtype === "u8",
    values: memory.read(problem.mask.region, problem.mask.dtype),
    strides: problem.mask.strides,
  };
  const weigh = numerics && attentionWeights;
  const emit = emitting(memory.write(problem.out, dtype), tolerance);
  const places = rows.out && placesOf(rows.out);
  const emitted: Emit =
    places === undefined ? emit : (index, value, magnitude) => emit(places[index]!, value, magnitude);
  const shape = { ...problem, mask };
  attention(shape, queries, keys, values, emitted, weigh);
  if (problem.logSumExp === undefined) return;
  const write = emitting(memory.write(problem.logSumExp, "f32"), numerics && logSumExpTolerance);
  logSumExp(shape, queries, keys, write, logSumExpError);
};
