/** The bits of a floating-point format of 16 bits. */
interface SmallFloat {
  /** Bits of the fraction that are stored. */
  readonly fraction: number;
  /** The exponent of the smallest normal number. */
  readonly leastExponent: number;
  /** Halfway between the largest number and the next power of two. */
  readonly overflow: number;
  /** The bits of the exponent, all set, in their place. */
  readonly infinity: number;
}

/** IEEE 754 binary16. */
const binary16: SmallFloat = { fraction: 10, leastExponent: -14, overflow: 65520, infinity: 0x7c00 };

/** The upper half of an f32: its exponent, and 7 bits of its fraction. */
const bfloat16: SmallFloat = {
  ...{ fraction: 7, leastExponent: -126, overflow: 2 ** 128 - 2 ** 119, infinity: 0x7f80 },
};

function bitsOf(value: number, { fraction, leastExponent, overflow, infinity }: SmallFloat): number {
  if (Number.isNaN(value)) return infinity | (1 << (fraction - 1));
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude >= overflow) return sign | infinity;
  const smallest = 2 ** leastExponent;
  const exponent = magnitude < smallest ? leastExponent : exponentOf(magnitude);
  // Subnormal numbers have the spacing of the smallest normal ones.
  const units = roundHalfToEven(magnitude / 2 ** (exponent - fraction));
  if (magnitude < smallest) return sign | units;
  // Here `units` has one bit more than the fraction; a carry beyond it flows into the exponent.
  const biased = exponent - leastExponent + 1;
  return sign | ((biased << fraction) + (units - (1 << fraction)));
}

function numberFrom(bits: number, { fraction, leastExponent, infinity }: SmallFloat): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits & infinity) >> fraction;
  const units = bits & ((1 << fraction) - 1);
  if (exponent === 0) return sign * units * 2 ** (leastExponent - fraction);
  if ((bits & infinity) === infinity) return units ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * ((1 << fraction) + units) * 2 ** (exponent - 1 + leastExponent - fraction);
}

/** Returns floor(log2(value)), exactly; Math.log2 may be off by one next to a power of two. */
function exponentOf(value: number): number {
  const guess = Math.floor(Math.log2(value));
  if (2 ** guess > value) return guess - 1;
  return 2 ** (guess + 1) <= value ? guess + 1 : guess;
}

function roundHalfToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest < 0.5) return below;
  if (rest > 0.5) return below + 1;
  return below % 2 === 0 ? below : below + 1;
}

/**
 * Returns the bit pattern of the IEEE 754 binary16 nearest to `value`, as an unsigned 16-bit integer. Rounds
 * once, straight from the double, ties to even. Overflow gives Infinity; subnormals are kept.
 */
export function float16ToBits(value: number): number {
  return bitsOf(value, binary16);
}

/** Returns the number that a binary16 bit pattern stands for (exact). */
export function float16FromBits(bits: number): number {
  return numberFrom(bits, binary16);
}

/** Returns the bit pattern of the bf16 nearest to `value`, rounded as `float16ToBits` does. */
export function bfloat16ToBits(value: number): number {
  return bitsOf(value, bfloat16);
}

/** Returns the number that a bf16 bit pattern stands for (exact). */
export function bfloat16FromBits(bits: number): number {
  return numberFrom(bits, bfloat16);
}

/** Rounds each number to binary16 and returns the bit patterns, ready for `copyHtoD`. */
export function encodeFloat16(values: ArrayLike<number>): Uint16Array<ArrayBuffer> {
  return encoded(values, float16ToBits);
}

/** Rounds each number to bf16 and returns the bit patterns, ready for `copyHtoD`. */
export function encodeBfloat16(values: ArrayLike<number>): Uint16Array<ArrayBuffer> {
  return encoded(values, bfloat16ToBits);
}

function encoded(values: ArrayLike<number>, toBits: (value: number) => number): Uint16Array<ArrayBuffer> {
  const bits = new Uint16Array(values.length);
  for (let i = 0; i < bits.length; i++) bits[i] = toBits(values[i]!);
  return bits;
}

/**
 * Widens binary16 bit patterns, as `copyDtoH` delivers them, to f32 (exact). A `Float16Array` holds numbers
 * rather than patterns; these are copied.
 */
export function decodeFloat16(bits: ArrayLike<number>): Float32Array<ArrayBuffer> {
  // Tests the name, because not every engine has the class.
  if (Object.prototype.toString.call(bits) === "[object Float16Array]") return Float32Array.from(bits);
  return decoded(bits, float16FromBits);
}

/** Widens bf16 bit patterns to f32 (exact). */
export function decodeBfloat16(bits: ArrayLike<number>): Float32Array<ArrayBuffer> {
  return decoded(bits, bfloat16FromBits);
}

function decoded(bits: ArrayLike<number>, fromBits: (bits: number) => number): Float32Array<ArrayBuffer> {
  const values = new Float32Array(bits.length);
  for (let i = 0; i < values.length; i++) values[i] = fromBits(bits[i]!);
  return values;
}
