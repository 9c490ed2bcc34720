import type { Pool2dProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";

/** A problem, or a part of its windows, after a division of these. */
export interface Problem extends Pool2dProblem<DeviceMemory> {
  /** The results of earlier parts are in the output. Default: false. */
  readonly continues?: boolean;
  /** The place in the image of the first element of the input. Default: 0. */
  readonly firstPlace?: number;
  /** How many rows, and columns, of whole windows a mean is of. Default: as many as are here. */
  readonly rowsCounted?: number;
  readonly columnsCounted?: number;
  /** The output is f32. Default: false. */
  readonly isPartial?: boolean;
}

/** The rows of a window, or its columns. */
export interface WindowAxis {
  readonly size: number;
  readonly taps: number;
  readonly step: number;
  readonly spread: number;
  readonly before: number;
  readonly after: number;
}

export function axesOf(problem: Problem): Readonly<Record<"y" | "x", WindowAxis>> {
  const { height, width, kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = problem;
  const { top, left, bottom, right } = problem;
  return {
    y: { size: height, taps: kernelHeight, step: strideY, spread: dilationY, before: top, after: bottom },
    x: { size: width, taps: kernelWidth, step: strideX, spread: dilationX, before: left, after: right },
  };
}

/** The first place of a window, which may be before the input. */
export function startOf({ step, before }: WindowAxis, window: number): number {
  return window * step - before;
}

/** The taps of a window that are in the input, [first, end), and how many a mean is of. */
export function tapsOf(
  axis: WindowAxis,
  window: number,
  countPadding: boolean,
): { readonly first: number; readonly end: number; readonly counted: number } {
  const { size, taps, spread, after } = axis;
  const start = startOf(axis, window);
  const below = (bound: number) => Math.min(taps, Math.max(0, Math.ceil((bound - start) / spread)));
  const [first, end] = [below(0), below(size)];
  return { first, end, counted: countPadding ? below(size + after) : end - first };
}
