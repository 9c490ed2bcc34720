import { decodeFloat16, encodeFloat16, type FloatType } from "@backplane/core";

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
