import {
  bfloat16FromBits,
  bfloat16ToBits,
  type DType,
  dtypeBytes,
  type FloatType,
  float16FromBits,
  float16ToBits,
  float32ToBits,
  type Region,
} from "@backplane/core";

/** An allocation of the reference is an array of bytes. */
export type ReferenceMemory = Uint8Array<ArrayBuffer>;

/** A part of an allocation of the reference. */
export type Place = Region<ReferenceMemory>;

type Words =
  | Float32Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | Uint32Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Uint8Array<ArrayBuffer>;

/** How the elements of a type are stored: an array of words, and what number each word stands for. */
interface Storage {
  /** Returns a view of stored elements. */
  words(buffer: ArrayBuffer, byteOffset?: number, count?: number): Words;
  /** Returns the number that a word stands for. */
  decode(word: number): number;
  /** Returns the word of the nearest number, ties to even; integers keep the low bits. */
  encode(value: number): number;
  /** The bit pattern of an element that must not be read, easy to recognise: of floats a quiet NaN. */
  readonly poison: number;
  /** A backend that declares it may flush smaller numbers to zero. Integers have no such numbers. */
  readonly smallestNormal: number;
}

const itself = (value: number) => value;

/** Every f16 by its bit pattern. */
const halves: Float64Array = Float64Array.from({ length: 2 ** 16 }, (_, bits) => float16FromBits(bits));

export const storages: Readonly<Record<DType, Storage>> = {
  f32: {
    words: (buffer, byteOffset, count) => new Float32Array(buffer, byteOffset, count),
    ...{ decode: itself, encode: itself, poison: 0x7fc0dead, smallestNormal: 2 ** -126 },
  },
  f16: {
    words: (buffer, byteOffset, count) => new Uint16Array(buffer, byteOffset, count),
    ...{ decode: (word) => halves[word]!, encode: halfBits, poison: 0x7ead, smallestNormal: 2 ** -14 },
  },
  i32: {
    words: (buffer, byteOffset, count) => new Int32Array(buffer, byteOffset, count),
    ...{ decode: itself, encode: itself, poison: 0x7fc0dead, smallestNormal: 0 },
  },
  u32: {
    words: (buffer, byteOffset, count) => new Uint32Array(buffer, byteOffset, count),
    ...{ decode: itself, encode: itself, poison: 0x7fc0dead, smallestNormal: 0 },
  },
  u8: {
    words: (buffer, byteOffset, count) => new Uint8Array(buffer, byteOffset, count),
    ...{ decode: itself, encode: itself, poison: 0xad, smallestNormal: 0 },
  },
  bf16: {
    words: (buffer, byteOffset, count) => new Uint16Array(buffer, byteOffset, count),
    ...{ decode: bfloat16FromBits, encode: bfloat16ToBits, poison: 0x7fde, smallestNormal: 2 ** -126 },
  },
};

/** What the suite knows about the numbers of a type of floating-point arithmetic. */
export interface FloatFormat {
  /** The distance of subnormal numbers, which is the smallest of them. */
  readonly smallestSubnormal: number;
  /** The largest finite number. */
  readonly largest: number;
  /** The bound from which numbers round to infinity. */
  readonly overflow: number;
  /** Whole numbers are exact up to this one. */
  readonly exactUpTo: number;
  /** Bits that a result in f32 loses when it is stored. */
  readonly bitsLost: number;
  /** Returns the nearest number that the type can hold, if it is in the normal range. Ties go either way. */
  roundNormal(value: number): number;
}

export const floatFormats: Readonly<Record<FloatType, FloatFormat>> = {
  f32: {
    smallestSubnormal: 2 ** -149,
    largest: 2 ** 128 - 2 ** 104,
    overflow: 2 ** 128 - 2 ** 103,
    exactUpTo: 2 ** 24,
    bitsLost: 0,
    roundNormal: Math.fround,
  },
  f16: {
    smallestSubnormal: 2 ** -24,
    largest: 65504,
    overflow: 65520,
    exactUpTo: 2 ** 11,
    bitsLost: 13,
    // Veltkamp's splitting cuts a double to 53 - 42 bits.
    roundNormal(value) {
      const scaled = value * (2 ** 42 + 1);
      return scaled - (scaled - value);
    },
  },
};

/** Returns what a type holds of a result that is given exactly. */
export function heldBy(dtype: FloatType, y: number): number {
  const { smallestNormal } = storages[dtype];
  return Math.abs(y) >= smallestNormal && Number.isFinite(y) ? floatFormats[dtype].roundNormal(y) : y;
}

/** Returns the bits of the nearest f16. If f16 holds the number, which is the usual case, moves the bits of its f32. */
export function halfBits(value: number): number {
  const magnitude = Math.abs(value);
  const bits = float32ToBits(value);
  const isHeld = magnitude >= 2 ** -14 && magnitude <= 65504 && Math.fround(value) === value;
  if (!isHeld || (bits & 0x1fff) !== 0) return float16ToBits(value);
  return ((bits >>> 16) & 0x8000) | (((bits & 0x7fffffff) >>> 13) - (112 << 10));
}

/** Returns stored elements as doubles. */
export function decoded(
  buffer: ArrayBuffer,
  byteOffset: number,
  count: number,
  dtype: DType,
): Float64Array<ArrayBuffer> {
  const { words, decode } = storages[dtype];
  const stored = words(buffer, byteOffset, count);
  const values = new Float64Array(count);
  for (let i = 0; i < count; i++) values[i] = decode(stored[i]!);
  return values;
}

/** Returns numbers as they are stored, each rounded to the nearest. */
export function encoded(values: ArrayLike<number>, dtype: DType): Uint8Array<ArrayBuffer> {
  const { words, encode } = storages[dtype];
  const bytes = new Uint8Array(values.length * dtypeBytes[dtype]);
  const stored = words(bytes.buffer);
  for (let i = 0; i < stored.length; i++) stored[i] = encode(values[i]!);
  return bytes;
}

/** Returns the elements of a region as doubles; none for an empty region. */
export function load({ memory, byteOffset, byteLength }: Place, dtype: DType): Float64Array<ArrayBuffer> {
  if (byteLength === 0) return new Float64Array(0);
  return decoded(memory.buffer, byteOffset, byteLength / dtypeBytes[dtype], dtype);
}

/** Returns a function that stores single elements, so that the bytes between them stay unchanged. */
export function storeInto(
  { memory, byteOffset, byteLength }: Place,
  dtype: DType,
): (index: number, value: number) => void {
  const { words, encode } = storages[dtype];
  const elements = words(memory.buffer, byteOffset, byteLength / dtypeBytes[dtype]);
  return (index, value) => {
    elements[index] = encode(value);
  };
}
