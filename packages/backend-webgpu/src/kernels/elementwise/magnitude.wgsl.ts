import { wgsl } from "../../program/index.js";

/**
 * `magnitude(value)`: the bits but for the sign, for a type of f32 and that of as many u32.
 *
 * Implementations of WGSL may assume that there is no NaN, and comparisons and maxima lose it. So kernels tell it from bits: the
 * magnitude of a NaN, of either sign, is above that of infinity, 0x7f800000.
 */
export function magnitudeFunction(floats: string, words: string): string {
  return wgsl`
fn magnitude(value: ${floats}) -> ${words} {
  return bitcast<${words}>(value) & ${words}(0x7fffffffu);
}
`;
}
