/** Numbers that bounds are made of. Imports nothing, so that functions can be had without the suite. */

/** Distance between neighbouring f32 at 1. Half of it would not do, because WGSL does not fix a rounding mode. */
export const epsilon: number = 2 ** -23;

const single = new Float32Array(1);
const bits = new Uint32Array(single.buffer);

/** Returns one unit in the last place of an f32 result. */
export function ulp(value: number): number {
  single[0] = Math.abs(value);
  // The exponent field; subnormal numbers have the spacing of the smallest normal ones.
  return 2 ** (Math.max((bits[0]! >>> 23) & 0xff, 1) - 150);
}
