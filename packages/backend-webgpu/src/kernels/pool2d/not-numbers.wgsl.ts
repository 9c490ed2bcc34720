import { wgsl } from "../../program/index.js";

/**
 * Implementations of WGSL may assume that there is no NaN, and maxima lose it. So it is told from the bits of the elements: the
 * magnitude of a NaN, of either sign, is above that of infinity, 0x7f800000.
 */
export function magnitudeFunction(value: "f32" | "vec4f"): string {
  const words = value === "f32" ? "u32" : "vec4u";
  return wgsl`
fn magnitude(value: ${value}) -> ${words} {
  return bitcast<${words}>(value) & ${words}(0x7fffffffu);
}
`;
}
