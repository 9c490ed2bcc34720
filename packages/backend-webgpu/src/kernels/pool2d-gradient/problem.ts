import type { Pool2dGradientProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import {
  axesOf,
  type GradientProblem,
  gradientSegments,
  type Range,
  type WindowAxis,
} from "../images/index.js";
import type { Segmentation } from "../segments/index.js";

/** A problem, or a part of it. */
export type Problem = Pool2dGradientProblem<DeviceMemory> & GradientProblem;

/** The windows that have places among `count` from `place` on. */
function windowsOver({ taps, step, spread, before }: WindowAxis, place: number, count: number): Range {
  const first = Math.max(0, Math.ceil((place + before - (taps - 1) * spread) / step));
  return { first, end: Math.floor((place + count - 1 + before) / step) + 1 };
}

export const poolGradientSegments: Segmentation<Problem> = gradientSegments<Problem>("pool2dGradient", {
  rows: (problem, row, rows) => windowsOver(axesOf(problem).y, row, rows),
  columns: (problem, column, columns) => windowsOver(axesOf(problem).x, column, columns),
});
