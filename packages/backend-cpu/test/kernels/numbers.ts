/** Numbers for kernel tests: a generator that repeats itself, special values, distances in ULP. */

/** Uniform in [0, 1), the same sequence for the same seed (xorshift32, G. Marsaglia 2003). */
export function randomNumbers(seed: number): () => number {
  let state = (seed * 0x9e3779b9) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state / 2 ** 32;
  };
}

const scratch = new DataView(new ArrayBuffer(4));

export function float32FromBits(bits: number): number {
  scratch.setUint32(0, bits);
  return scratch.getFloat32(0);
}

/** Spacing of f32 at a magnitude; 2^-149 for subnormals. */
export function ulp32(value: number): number {
  const magnitude = Math.abs(value);
  if (magnitude < 2 ** -126) return 2 ** -149;
  let exponent = Math.floor(Math.log2(magnitude));
  if (2 ** exponent > magnitude) exponent--;
  else if (2 ** (exponent + 1) <= magnitude) exponent++;
  return 2 ** (exponent - 23);
}

/** |value - reference| in units of f32 spacing at the reference; 0 for equal specials, else Infinity. */
export function ulpDistance(value: number, reference: number): number {
  if (Number.isNaN(reference)) return Number.isNaN(value) ? 0 : Number.POSITIVE_INFINITY;
  const rounded = Math.fround(reference);
  if (!Number.isFinite(rounded) || !Number.isFinite(value))
    return Object.is(rounded, value) ? 0 : overflowDistance(value, reference);
  return Math.abs(value - reference) / ulp32(reference);
}

/** Next to the overflow threshold both Infinity and the largest number may be close enough. */
function overflowDistance(value: number, reference: number): number {
  const largest = (2 - 2 ** -23) * 2 ** 127;
  const near = Math.abs(Math.abs(reference) - 2 ** 128) < 2 ** 106;
  const sameSign = Math.sign(value) === Math.sign(reference);
  return near && sameSign && Math.abs(value) >= largest ? 1 : Number.POSITIVE_INFINITY;
}

/** Zeros, infinities, NaN, subnormals and the extremes, with both signs. */
export const specialNumbers: readonly number[] = [
  0,
  2 ** -149,
  3 * 2 ** -149,
  2 ** -127,
  2 ** -126,
  1e-30,
  1e-6,
  0.5,
  1,
  1.5,
  2.5,
  Math.fround(88.72283),
  Math.fround(88.72284),
  Math.fround(103.97208),
  Math.fround(103.97209),
  2 ** 23,
  2 ** 23 + 1,
  2 ** 24,
  2 ** 31,
  1e30,
  (2 - 2 ** -23) * 2 ** 127,
  Number.POSITIVE_INFINITY,
]
  .flatMap((value) => [value, -value])
  .concat(Number.NaN);

/** Numbers from all of f32: specials, every exponent with both signs, and uniform ones in ranges. */
export function sweep(seed: number, perRange = 2000): Float32Array<ArrayBuffer> {
  const random = randomNumbers(seed);
  const values = [...specialNumbers];
  for (let exponent = 0; exponent < 255; exponent++)
    for (let i = 0; i < 16; i++)
      values.push(
        float32FromBits(((i & 1) * 2 ** 31 + exponent * 2 ** 23 + Math.floor(random() * 2 ** 23)) >>> 0),
      );
  for (const range of [1, 2, 5, 12, 20, 110])
    for (let i = 0; i < perRange; i++) values.push(range * (2 * random() - 1));
  return Float32Array.from(values);
}
