import type { AttentionProblem, Rows } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { gathered, placesOf } from "./rows.js";
import { attentionTolerance, attentionWeights } from "./tolerance.js";

/** Of contiguous operands. */
export type AttentionShape = Omit<
  AttentionProblem<unknown>,
  "q" | "k" | "v" | "out" | "dtype" | "rows" | "keyPitch"
>;

/** The softmax of one query over the keys it sees. */
export interface AttentionRow {
  /** Keys seen: 0 to keyLength. */
  readonly count: number;
  /** Score minus the largest score, per key. */
  readonly distances: Float64Array;
  /** |scale| sum |q| |k|, per key. */
  readonly magnitudes: Float64Array;
  /** Sums to 1. */
  readonly probabilities: Float64Array;
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
  const { batch, heads, kvHeads, queryLength, keyLength, headSize } = shape;
  for (let b = 0; b < batch; b++)
    for (let head = 0; head < heads; head++) {
      const keyHead = b * kvHeads + Math.floor(head / (heads / kvHeads));
      const keys = k.subarray(keyHead * keyLength * headSize, (keyHead + 1) * keyLength * headSize);
      const values = v.subarray(keyHead * keyLength * headSize, (keyHead + 1) * keyLength * headSize);
      for (let i = 0; i < queryLength; i++) {
        const start = ((b * heads + head) * queryLength + i) * headSize;
        const row = attentionRow(shape, q.subarray(start, start + headSize), keys, i);
        const weights = weigh?.(row);
        for (let d = 0; d < headSize; d++) {
          let sum = 0;
          let magnitude = 0;
          for (let j = 0; j < row.count; j++) {
            const term = row.probabilities[j]! * values[j * headSize + d]!;
            sum += term;
            magnitude += Math.abs(term) * (weights?.[j] ?? 1);
          }
          emit(start + d, sum, magnitude);
        }
      }
    }
}

function attentionRow(
  shape: AttentionShape,
  query: Float64Array,
  keys: Float64Array,
  i: number,
): AttentionRow {
  const { headSize, keyLength, scale, visible } = shape;
  const count = Math.min(Math.max(i + visible + 1, 0), keyLength);
  const distances = new Float64Array(count);
  const magnitudes = new Float64Array(count);
  for (let j = 0; j < count; j++)
    for (let d = 0; d < headSize; d++) {
      const product = scale * query[d]! * keys[j * headSize + d]!;
      distances[j]! += product;
      magnitudes[j]! += Math.abs(product);
    }
  const largest = distances.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  for (let j = 0; j < count; j++) distances[j]! -= largest;
  const probabilities = distances.map((distance) => Math.exp(distance));
  const total = probabilities.reduce((a, b) => a + b, 0);
  for (let j = 0; j < count; j++) probabilities[j]! /= total;
  return { count, distances, magnitudes, probabilities };
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
  const weigh = numerics && ((row: AttentionRow) => attentionWeights(row, headSize));
  const emit = emitting(memory.write(problem.out, dtype), tolerance);
  const places = rows.out && placesOf(rows.out);
  const emitted: Emit =
    places === undefined ? emit : (index, value, magnitude) => emit(places[index]!, value, magnitude);
  attention(problem, queries, keys, values, emitted, weigh);
};
