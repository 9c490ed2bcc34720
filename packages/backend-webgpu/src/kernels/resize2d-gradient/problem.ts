import type { Resize2dGradientProblem, ResizedAxis } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { type GradientProblem, gradientSegments, type Range } from "../images/index.js";
import type { Segmentation } from "../segments/index.js";

/** A problem, or a part of it. */
export type Problem = Resize2dGradientProblem<DeviceMemory> & GradientProblem;

/**
 * The results that are made of any of `count` elements from `place` on, of `size` elements and `extent` results: those whose
 * places are less than one element away. Places are in order.
 */
function resultsOver(
  { factor, shift, divisor }: ResizedAxis,
  size: number,
  extent: number,
  place: number,
  count: number,
): Range {
  // All before the first element belong to it, and all behind the last one to that.
  const first = place === 0 ? 0 : Math.floor(((place - 1) * divisor - shift) / factor) + 1;
  const end = place + count >= size ? extent : Math.ceil(((place + count) * divisor - shift) / factor);
  return { first: Math.max(0, first), end: Math.min(end, extent) };
}

export const resizeGradientSegments: Segmentation<Problem> = gradientSegments<Problem>("resize2dGradient", {
  rows: ({ y, height, outHeight }, row, rows) => resultsOver(y, height, outHeight, row, rows),
  columns: ({ x, width, outWidth }, column, columns) => resultsOver(x, width, outWidth, column, columns),
});
