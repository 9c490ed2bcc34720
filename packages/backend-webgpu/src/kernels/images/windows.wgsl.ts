import { wgsl } from "../../program/index.js";

/** For kernels with the parameter `low`; see `countedPlaces`. */
export const countedFunction: string = wgsl`
/// How many of the places of a window are in [low, high).
fn counted(start: i32, taps: i32, spread: i32, high: i32) -> i32 {
  var first = 0;
  if (start < parameters.low) { first = (parameters.low - start + spread - 1) / spread; }
  var end = taps;
  if (start + (taps - 1) * spread >= high) { end = (high - start + spread - 1) / spread; }
  return end - first;
}
`;
