/** Element types that a backend may store. Sums and products of f16 data are accumulated in f32. */
export type DType = "f32" | "f16";

/** Every element type, in the order used by tables and reports. */
export const dtypes: readonly DType[] = ["f32", "f16"];

/** Storage size of one element, in bytes. */
export const dtypeBytes: Readonly<Record<DType, number>> = { f32: 4, f16: 2 };

const float32 = new Float32Array(1);
const float32Bits = new Uint32Array(float32.buffer);

/** Returns the bit pattern of the f32 nearest to `value` (ties to even), as an unsigned 32-bit integer. */
export function float32ToBits(value: number): number {
  float32[0] = value;
  return float32Bits[0]!;
}

/**
 * Returns the bit pattern of the IEEE 754 binary16 nearest to `value`, as an unsigned 16-bit integer. Rounds
 * once, straight from the double, ties to even. Overflow gives Infinity; subnormals are kept.
 */
export function float16ToBits(value: number): number {
  if (Number.isNaN(value)) return 0x7e00;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // 65520 is halfway between the largest binary16 (65504) and the next power-of-two step.
  if (magnitude >= 65520) return sign | 0x7c00;
  // The spacing of binary16 numbers at this magnitude; 2^-24 throughout the subnormal range.
  const exponent = magnitude < 2 ** -14 ? -14 : Math.floor(Math.log2(magnitude));
  // Math.log2 may be off by one next to a power of two; correct it exactly.
  const floor = magnitude < 2 ** -14 ? -14 : correctExponent(magnitude, exponent);
  const units = roundHalfToEven(magnitude / 2 ** (floor - 10));
  // In the normal range `units` lies in [1024, 2048]; the carry at 2048 flows into the exponent.
  const biased = floor + 15;
  return sign | (magnitude < 2 ** -14 ? units : (biased << 10) + (units - 1024));
}

/** Returns the number that a binary16 bit pattern stands for (exact). */
export function float16FromBits(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 0x1f;
  const fraction = bits & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

/** Rounds each number to binary16 and returns the bit patterns, ready for `copyHtoD`. */
export function encodeFloat16(values: ArrayLike<number>): Uint16Array<ArrayBuffer> {
  const bits = new Uint16Array(values.length);
  for (let i = 0; i < bits.length; i++) bits[i] = float16ToBits(values[i]!);
  return bits;
}

/**
 * Widens binary16 bit patterns, as `copyDtoH` delivers them, to f32 (exact). A `Float16Array` holds numbers
 * rather than patterns; these are copied.
 */
export function decodeFloat16(bits: ArrayLike<number>): Float32Array<ArrayBuffer> {
  // Tests the name, because not every engine has the class.
  if (Object.prototype.toString.call(bits) === "[object Float16Array]") return Float32Array.from(bits);
  const values = new Float32Array(bits.length);
  for (let i = 0; i < values.length; i++) values[i] = float16FromBits(bits[i]!);
  return values;
}

function correctExponent(magnitude: number, guess: number): number {
  if (2 ** guess > magnitude) return guess - 1;
  if (2 ** (guess + 1) <= magnitude) return guess + 1;
  return guess;
}

function roundHalfToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest < 0.5) return below;
  if (rest > 0.5) return below + 1;
  return below % 2 === 0 ? below : below + 1;
}
