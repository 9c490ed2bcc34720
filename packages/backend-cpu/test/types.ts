import { decodeFloat16, encodeFloat16, type FloatType, type IntegerType } from "@backplane/core";

/** What tests know about an element type with which kernels compute. */
interface TypeUnderTest {
  /** Rounds numbers to elements, as they lie in memory. */
  encode(values: Float32Array): Float32Array | Uint16Array<ArrayBuffer>;
  decode(elements: ArrayBuffer): Float32Array;
  /** The largest error of rounding a number near `value` from f32 to this type. */
  rounding(value: number): number;
}

export const types: Readonly<Record<FloatType, TypeUnderTest>> = {
  f32: {
    encode: (values) => values,
    decode: (elements) => new Float32Array(elements),
    rounding: () => 0,
  },
  f16: {
    encode: encodeFloat16,
    decode: (elements) => decodeFloat16(new Uint16Array(elements)),
    rounding: (value) => Math.max(2 ** -11 * Math.abs(value), 2 ** -25),
  },
};

/** The numbers as the elements of a type hold them. */
export function asStored(dtype: FloatType, values: Float32Array): Float32Array {
  const { encode, decode } = types[dtype];
  return decode(encode(values).slice().buffer);
}

/** How numbers lie in memory, and come back, as elements of any type of arithmetic. */
export interface Codec {
  encode(values: ArrayLike<number>): Float32Array | Uint16Array | Int32Array | Uint32Array;
  decode(bytes: ArrayBuffer): ArrayLike<number>;
}

const floatCodec = ({ encode, decode }: TypeUnderTest): Codec => ({
  encode: (values) => encode(Float32Array.from(values)),
  decode,
});

export const codecs: Readonly<Record<FloatType | IntegerType, Codec>> = {
  f32: floatCodec(types.f32),
  f16: floatCodec(types.f16),
  i32: { encode: (values) => Int32Array.from(values), decode: (bytes) => new Int32Array(bytes) },
  u32: { encode: (values) => Uint32Array.from(values), decode: (bytes) => new Uint32Array(bytes) },
};
