import { textOf } from "../tokenizer/tokenizer.js";
import { type ByteSource, FileError } from "./file.js";

export type MetadataValue = number | bigint | string | boolean | readonly MetadataValue[];

export interface TensorEntry {
  readonly name: string;
  /** The extent along which weights follow one another comes first. */
  readonly extents: readonly number[];
  /** A number of the enumeration `ggml_type`. */
  readonly type: number;
  /** Of its first byte in the file. */
  readonly offset: number;
}

export interface GgufHeader {
  readonly metadata: ReadonlyMap<string, MetadataValue>;
  readonly tensors: ReadonlyMap<string, TensorEntry>;
}

/** Read at first, and twice as much each time that this is not enough. */
const firstBytes = 2 ** 20;

/**
 * Reads the names and sizes in a GGUF file, version 2 or 3
 * (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): what is known of the model, by key, and its tensors.
 */
export async function readGgufHeader(file: ByteSource): Promise<GgufHeader> {
  for (let length = Math.min(firstBytes, file.size); ; length = Math.min(2 * length, file.size)) {
    const reader = new HeaderReader(await file.read(0, length));
    try {
      return headerOf(reader);
    } catch (error) {
      if (!(error instanceof EndOfBytes)) throw error;
      if (length === file.size)
        throw new FileError(`It is cut off: its header goes on after ${length} bytes.`);
    }
  }
}

function headerOf(reader: HeaderReader): GgufHeader {
  reader.u32();
  const version = reader.u32();
  if (version !== 2 && version !== 3)
    throw new FileError(`It is a GGUF file of version ${version}; this program reads 2 and 3.`);
  const tensorCount = reader.u64();
  const keyCount = reader.u64();
  const metadata = new Map<string, MetadataValue>();
  for (let i = 0; i < keyCount; i++) {
    const key = reader.string();
    metadata.set(key, reader.value(reader.u32()));
  }
  const entries: TensorEntry[] = [];
  for (let i = 0; i < tensorCount; i++) {
    const name = reader.string();
    const extents = Array.from({ length: reader.u32() }, () => reader.u64());
    entries.push({ name, extents, type: reader.u32(), offset: reader.u64() });
  }
  const alignment = alignmentOf(metadata);
  const start = Math.ceil(reader.offset / alignment) * alignment;
  return {
    metadata,
    tensors: new Map(entries.map((entry) => [entry.name, { ...entry, offset: start + entry.offset }])),
  };
}

/** Data of tensors start at multiples of this number of bytes. */
function alignmentOf(metadata: ReadonlyMap<string, MetadataValue>): number {
  const alignment = metadata.get("general.alignment") ?? 32;
  if (typeof alignment !== "number")
    throw new FileError(`general.alignment is ${String(alignment)}, which is no number of 32 bits.`);
  if (!Number.isInteger(alignment) || alignment <= 0 || alignment % 8 !== 0)
    throw new FileError(`general.alignment is ${alignment}; allowed: positive multiples of 8.`);
  return alignment;
}

/** There are fewer bytes than are to be read. */
class EndOfBytes extends Error {}

const STRING = 8;
const ARRAY = 9;

/** How deep arrays lie in one another at most; models have arrays of numbers and texts. */
const deepest = 16;

class HeaderReader {
  offset = 0;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  u32(): number {
    return this.#view.getUint32(this.#skip(4), true);
  }

  u64(): number {
    return Number(this.#view.getBigUint64(this.#skip(8), true));
  }

  string(): string {
    const length = this.u64();
    const from = this.#skip(length);
    return textOf(this.#bytes.subarray(from, from + length));
  }

  /** A value in so many arrays. */
  value(type: number, depth = 0): MetadataValue {
    if (type === STRING) return this.string();
    if (type === ARRAY) {
      if (depth === deepest)
        throw new FileError(`Its header has arrays in one another, more than ${deepest} deep.`);
      const of = this.u32();
      const values: MetadataValue[] = [];
      for (let left = this.u64(); left > 0; left--) values.push(this.value(of, depth + 1));
      return values;
    }
    const scalar = scalars[type];
    if (scalar === undefined)
      throw new FileError(`Its header has a value of type ${type}, which is unknown.`);
    const [bytes, read] = scalar;
    return read(this.#view, this.#skip(bytes));
  }

  #skip(bytes: number): number {
    const from = this.offset;
    if (from + bytes > this.#bytes.length) throw new EndOfBytes();
    this.offset += bytes;
    return from;
  }
}

/** Types of values by their numbers: bytes, and how they are read. */
const scalars: Readonly<
  Record<number, readonly [number, (view: DataView, at: number) => number | bigint | boolean]>
> = {
  0: [1, (view, at) => view.getUint8(at)],
  1: [1, (view, at) => view.getInt8(at)],
  2: [2, (view, at) => view.getUint16(at, true)],
  3: [2, (view, at) => view.getInt16(at, true)],
  4: [4, (view, at) => view.getUint32(at, true)],
  5: [4, (view, at) => view.getInt32(at, true)],
  6: [4, (view, at) => view.getFloat32(at, true)],
  7: [1, (view, at) => view.getUint8(at) !== 0],
  10: [8, (view, at) => view.getBigUint64(at, true)],
  11: [8, (view, at) => view.getBigInt64(at, true)],
  12: [8, (view, at) => view.getFloat64(at, true)],
};
