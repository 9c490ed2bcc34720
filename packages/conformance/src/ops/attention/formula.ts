import type { AttentionProblem, MaskAxes, Rows } from "@backplane/core";
import type { ReferenceMemory } from "../../elements.js";
import { type Emit, type Evaluate, emitting } from "../operation.js";
import { gathered, placesOf } from "./rows.js";
import { attentionTolerance, attentionWeights } from "./tolerance.js";

/** Of contiguous operands. */
export interface AttentionShape
  extends Omit<
    AttentionProblem<unknown>,
    "q" | "k" | "v" | "out" | "dtype" | "rows" | "keyPitch" | "oldest" | "mask"
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
        const row = attentionRow(shape, q.subarray(start, start + headSize), keys, [b, head, i]);
        const weights = weigh?.(row);
        for (let d = 0; d < headSize; d++) {
          let sum = 0;
          let magnitude = 0;
          for (const [n, j] of row.keys.entries()) {
            const term = row.probabilities[n]! * values[j * headSize + d]!;
            sum += term;
            magnitude += Math.abs(term) * (weights?.[n] ?? 1);
          }
          emit(start + d, sum, magnitude);
        }
      }
    }
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
  return { keys, roundings, distances, magnitudes, probabilities };
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
  attention({ ...problem, mask }, queries, keys, values, emitted, weigh);
};
