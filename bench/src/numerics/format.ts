import type { FloatType } from "@backplane/core";

/** Digits of a significand after the point, the exponent of the smallest normal number, the largest number. */
export const format: Readonly<Record<FloatType, { digits: number; lowest: number; largest: number }>> = {
  f32: { digits: 23, lowest: -126, largest: (2 - 2 ** -23) * 2 ** 127 },
  f16: { digits: 10, lowest: -14, largest: 65504 },
};

const scratch = new DataView(new ArrayBuffer(8));

/** floor(log2 |value|) of a normal number of f64; -1023 for smaller ones. */
export function exponentOf(value: number): number {
  scratch.setFloat64(0, value);
  return ((scratch.getUint32(0) >>> 20) & 0x7ff) - 1023;
}

/**
 * Returns the spacing of a type's numbers around `value`: a unit in its last place; below the normal numbers
 * that of subnormal numbers.
 */
export function spacing(dtype: FloatType, value: number): number {
  const { digits, lowest } = format[dtype];
  return 2 ** (Math.max(exponentOf(value), lowest) - digits);
}
