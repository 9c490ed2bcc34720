import { bfloat16FromBits, bfloat16ToBits, float16FromBits, float16ToBits } from "./small-floats.js";

/** Element types of floating-point arithmetic. Sums and products of f16 data are accumulated in f32. */
export type FloatType = "f32" | "f16";

/** Element types of integer arithmetic, which wraps around at 32 bits. */
export type IntegerType = "i32" | "u32";

/**
 * Element types. u8 holds bytes, and truth values: 0 is false and all else is true, while results are 0 or 1.
 * bf16 is storage, to be converted: the upper half of an f32.
 */
export type DType = FloatType | IntegerType | "u8" | "bf16";

export const floatTypes: readonly FloatType[] = ["f32", "f16"];

export const integerTypes: readonly IntegerType[] = ["i32", "u32"];

/** Every element type, in the order used by tables and reports. */
export const dtypes: readonly DType[] = [...floatTypes, ...integerTypes, "u8", "bf16"];

/** What there is to know about the elements of one type. */
export interface ElementType {
  /** Storage size, in bytes. */
  readonly bytes: 1 | 2 | 4;
  /** Integers: the least and the largest. Undefined: the type holds fractions, infinities and NaN. */
  readonly range?: readonly [least: number, largest: number];
  /** Returns the bit pattern of a number, as an unsigned integer. Fractions are rounded to nearest, ties to even. */
  toBits(value: number): number;
  /** Returns the number that a bit pattern stands for (exact). */
  fromBits(bits: number): number;
}

export const elementTypes: Readonly<Record<DType, ElementType>> = {
  f32: { bytes: 4, toBits: float32ToBits, fromBits: float32FromBits },
  f16: { bytes: 2, toBits: float16ToBits, fromBits: float16FromBits },
  i32: {
    bytes: 4,
    range: [-(2 ** 31), 2 ** 31 - 1],
    toBits: (value) => value >>> 0,
    fromBits: (bits) => bits | 0,
  },
  u32: { bytes: 4, range: [0, 2 ** 32 - 1], toBits: (value) => value >>> 0, fromBits: (bits) => bits >>> 0 },
  u8: { bytes: 1, range: [0, 255], toBits: (value) => value & 0xff, fromBits: (bits) => bits & 0xff },
  bf16: { bytes: 2, toBits: bfloat16ToBits, fromBits: bfloat16FromBits },
};

/** Storage size of one element, in bytes. Written out because engines read it faster than a computed object. */
export const dtypeBytes: Readonly<Record<DType, number>> = {
  f32: elementTypes.f32.bytes,
  f16: elementTypes.f16.bytes,
  i32: elementTypes.i32.bytes,
  u32: elementTypes.u32.bytes,
  u8: elementTypes.u8.bytes,
  bf16: elementTypes.bf16.bytes,
};

const float32 = new Float32Array(1);
const float32Bits = new Uint32Array(float32.buffer);

/** Returns the bit pattern of the f32 nearest to `value` (ties to even), as an unsigned 32-bit integer. */
export function float32ToBits(value: number): number {
  float32[0] = value;
  return float32Bits[0]!;
}

/** Returns the number that the bit pattern of an f32 stands for. */
export function float32FromBits(bits: number): number {
  float32Bits[0] = bits;
  return float32[0]!;
}
