import type { GgufFormat } from "@backplane/core";
import type { Shape } from "../shape.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { type ByteSource, FileError } from "./file.js";
import { readGguf } from "./gguf.js";
import { readLlama2c } from "./llama2c.js";
import { Q6_K_BYTES, Q6_K_WEIGHTS } from "./q6-k.js";
import { looksLikeSafetensors } from "./safetensors.js";
import { readTrained } from "./trained.js";

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
export function layerShapes({
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

/** The first bytes of a GGUF file. */
const ggufMagic = "GGUF";

/** Bytes that tell the kinds of files apart. */
const START_BYTES = 12;

/** Reads everything but the weights. Throws a FileError if the file is cut off or of another kind. */
export async function readCheckpoint(file: ByteSource): Promise<Checkpoint> {
  if (file.size < START_BYTES) throw new FileError(`It has ${file.size} bytes, which is no model.`);
  return ((await readerOf(file)) ?? readLlama2c)(file);
}

/** Whether a file is of a format for models by its first bytes; those of llama2.c say nothing. */
export async function isModel(file: ByteSource): Promise<boolean> {
  return file.size >= START_BYTES && (await readerOf(file)) !== undefined;
}

async function readerOf(file: ByteSource): Promise<((file: ByteSource) => Promise<Checkpoint>) | undefined> {
  const start = await file.read(0, START_BYTES);
  if (new TextDecoder("latin1").decode(start).startsWith(ggufMagic)) return readGguf;
  return looksLikeSafetensors(start) ? readTrained : undefined;
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
