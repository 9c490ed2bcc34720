import type { GgufFormat } from "@backplane/core";
import type { Shape } from "../shape.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { Q6_K_BYTES, Q6_K_WEIGHTS } from "./q6-k.js";

/** Types of weights in files. */
export type StoredType = "F32" | "F16" | "BF16" | "Q6_K" | GgufFormat;

/** Weights in a file: a matrix, row by row. */
export interface StoredMatrix {
  readonly type: StoredType;
  readonly rows: number;
  readonly columns: number;
  /** Of its first byte in the file. */
  readonly offset: number;
}

export interface StoredLayer {
  readonly attentionNorm: StoredMatrix;
  readonly query: StoredMatrix;
  readonly key: StoredMatrix;
  readonly value: StoredMatrix;
  readonly attentionOutput: StoredMatrix;
  readonly feedForwardNorm: StoredMatrix;
  readonly gate: StoredMatrix;
  readonly up: StoredMatrix;
  readonly down: StoredMatrix;
}

/** What a model file says. */
export interface Checkpoint {
  readonly shape: Shape;
  readonly embedding: StoredMatrix;
  readonly layers: readonly StoredLayer[];
  readonly finalNorm: StoredMatrix;
  /** Undefined: the embedding. */
  readonly classifier: StoredMatrix | undefined;
  /** Undefined: it is in another file. */
  readonly tokenizer: Tokenizer | undefined;
}

/** [rows, columns] of the matrices of a layer. */
export function storedShapes({
  size,
  hidden,
  heads,
  kvHeads,
  headSize,
}: Omit<Shape, "frequencies">): Readonly<Record<keyof StoredLayer, readonly [number, number]>> {
  return {
    attentionNorm: [1, size],
    query: [heads * headSize, size],
    key: [kvHeads * headSize, size],
    value: [kvHeads * headSize, size],
    attentionOutput: [size, heads * headSize],
    feedForwardNorm: [1, size],
    gate: [hidden, size],
    up: [hidden, size],
    down: [size, hidden],
  };
}

/** Bytes of `count` weights in a file. */
export function storedBytes(type: StoredType, count: number): number {
  const [weights, bytes] = blocks[type];
  return (count / weights) * bytes;
}

/** Weights of a block, and its bytes. */
export const blocks: Readonly<Record<StoredType, readonly [weights: number, bytes: number]>> = {
  F32: [1, 4],
  F16: [1, 2],
  BF16: [1, 2],
  Q8_0: [32, 34],
  Q4_0: [32, 18],
  Q6_K: [Q6_K_WEIGHTS, Q6_K_BYTES],
};
