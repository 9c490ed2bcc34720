import { type ComputeBackend, type DType, dtypeBytes, upload } from "@backplane/core";
import { contiguous } from "../lazy/fusion.js";
import { type Tensor, wrap } from "../tensor.js";
import { Storage, Value } from "../value.js";
import type { Shape } from "../view/shape.js";
import { broken, decodeHeader, encodeHeader, type Header, headerLength, lengthBytes } from "./format.js";

/** Is called when so many of all bytes are done. */
export type Progress = (done: number, total: number) => void;

export interface SaveOptions {
  /** Texts to be saved with the tensors: numbers of steps, seeds, and so on. */
  readonly metadata?: ReadonlyMap<string, string> | Readonly<Record<string, string>>;
  readonly onProgress?: Progress;
}

export interface LoadOptions {
  readonly onProgress?: Progress;
}

/** What a file holds. */
export interface Checkpoint {
  readonly tensors: Map<string, Tensor>;
  readonly metadata: ReadonlyMap<string, string>;
}

/** Yields the bytes of a file: the header, then each tensor, which is read when it is its turn. */
export async function* safetensorsChunks(
  tensors: ReadonlyMap<string, Tensor>,
  { metadata = {}, onProgress }: SaveOptions = {},
): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
  const texts = metadata instanceof Map ? metadata : new Map(Object.entries(metadata));
  const header = encodeHeader(tensors, texts);
  // The values as they are now: a step of training meanwhile changes none of them.
  const values = Array.from(tensors.values(), (tensor) => tensor.value.retain());
  try {
    const total = values.reduce((sum, { size, dtype }) => sum + size * dtypeBytes[dtype], header.length);
    let done = header.length;
    yield header;
    onProgress?.(done, total);
    for (const value of values) {
      const bytes = new Uint8Array(value.size * dtypeBytes[value.dtype]);
      await value.backend.copyDtoH(bytes, contiguous(value));
      yield bytes;
      done += bytes.length;
      onProgress?.(done, total);
    }
  } finally {
    for (const value of values) value.release();
  }
}

/** Returns the bytes of a file with these tensors. */
export async function encodeSafetensors(
  tensors: ReadonlyMap<string, Tensor>,
  options: SaveOptions = {},
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of safetensorsChunks(tensors, options)) chunks.push(chunk);
  const file = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let start = 0;
  for (const chunk of chunks) {
    file.set(chunk, start);
    start += chunk.length;
  }
  return file;
}

/** A tensor in the bytes of a file. */
export interface StoredBytes {
  readonly dtype: DType;
  readonly shape: Shape;
  /** Its elements in row-major order, little-endian: a part of the file, not a copy. It may begin at any byte. */
  readonly bytes: Uint8Array;
}

/** What a file holds, without a backend. */
export interface StoredCheckpoint {
  readonly tensors: Map<string, StoredBytes>;
  readonly metadata: ReadonlyMap<string, string>;
}

/** Finds the tensors of a file, and copies none. Throws `INVALID_ARGUMENT` if the file is broken. */
export function parseSafetensors(file: Uint8Array): StoredCheckpoint {
  const start = lengthBytes + headerLength(file.subarray(0, lengthBytes), file.length);
  const { tensors, metadata } = decodeHeader(file.subarray(lengthBytes, start), file.length - start);
  const entries = tensors.map(({ name, dtype, shape, start: from, bytes: length }) => {
    const bytes = file.subarray(start + from, start + from + length);
    return [name, { dtype, shape, bytes }] as const;
  });
  return { tensors: new Map(entries), metadata };
}

/** Returns the tensors of a file on a backend. Throws `INVALID_ARGUMENT` if the file is broken. */
export function decodeSafetensors(backend: ComputeBackend, file: Uint8Array): Checkpoint {
  const { tensors: stored, metadata } = parseSafetensors(file);
  const tensors = new Map<string, Tensor>();
  for (const [name, { dtype, shape, bytes }] of stored)
    tensors.set(name, uploaded(backend, dtype, shape, bytes));
  return { tensors, metadata };
}

/** A file that is read in parts. */
export interface Source {
  readonly bytes: number;
  /** Returns `length` bytes from a place on, or fewer at the end of the file. */
  read(start: number, length: number): Promise<Uint8Array>;
}

/** Reads a file part by part, so that no more than one tensor of it is in the host's memory. */
export async function readSafetensors(
  backend: ComputeBackend,
  source: Source,
  { onProgress }: LoadOptions = {},
): Promise<Checkpoint> {
  const length = headerLength(await source.read(0, lengthBytes), source.bytes);
  const start = lengthBytes + length;
  const header: Header = decodeHeader(await readAll(source, lengthBytes, length), source.bytes - start);
  const tensors = new Map<string, Tensor>();
  try {
    onProgress?.(start, source.bytes);
    for (const { name, dtype, shape, start: from, bytes } of header.tensors) {
      tensors.set(name, uploaded(backend, dtype, shape, await readAll(source, start + from, bytes)).keep());
      onProgress?.(start + from + bytes, source.bytes);
    }
  } catch (error) {
    for (const tensor of tensors.values()) tensor.dispose();
    throw error;
  }
  return { tensors, metadata: header.metadata };
}

/** Throws if the source ends before: it may have become shorter since its length was asked for. */
async function readAll(source: Source, start: number, length: number): Promise<Uint8Array> {
  const bytes = await source.read(start, length);
  return bytes.length === length
    ? bytes
    : broken(`it ends after ${bytes.length} of ${length} bytes from byte ${start} on`);
}

function uploaded(
  backend: ComputeBackend,
  dtype: DType,
  shape: readonly number[],
  bytes: Uint8Array,
): Tensor {
  const value = new Value(backend, dtype, shape);
  value.storage = new Storage(backend, upload(backend, bytes));
  return wrap(value);
}
