import type { ScatterProblem } from "@backplane/core";
import type { DeviceMemory } from "../../runtime/index.js";
import { sliceOf } from "../segments/index.js";

/** A problem, or, after a division along the axis, a part of it that has some of the rows. */
export interface Problem extends ScatterProblem<DeviceMemory> {
  /** The row that index `first` names is the first one here. Default: 0. */
  readonly first?: number;
}

/** Along the axes before the given one. */
export function slab(problem: Problem, first: number, outer: number): Problem {
  const { dtype, length, count, inner, outerStride, indices, updates, output } = problem;
  return {
    ...{ ...problem, outer, outerStride: outer === 1 ? 0 : outerStride },
    indices: outerStride === 0 ? indices : sliceOf(indices, "i32", first * outerStride, outer * outerStride),
    updates: sliceOf(updates, dtype, first * count * inner, outer * count * inner),
    output: sliceOf(output, dtype, first * length * inner, outer * length * inner),
  };
}

/** Of one slab: indices and their updates. */
export function some(problem: Problem, first: number, count: number): Problem {
  const { dtype, inner, axisStride, indices, updates } = problem;
  return {
    ...{ ...problem, count },
    indices: sliceOf(indices, "i32", first * axisStride, count * axisStride),
    updates: sliceOf(updates, dtype, first * inner, count * inner),
  };
}

/** Of one slab: rows of the output. */
export function rows(problem: Problem, first: number, length: number): Problem {
  const { dtype, inner, output, first: before = 0 } = problem;
  return {
    ...{ ...problem, length, first: before + first },
    output: sliceOf(output, dtype, first * inner, length * inner),
  };
}

/** Of one row of the output, and one of updates. */
export function columns(problem: Problem, first: number, inner: number): Problem {
  const { dtype, innerStride, indices, updates, output } = problem;
  return {
    ...{ ...problem, inner, axisStride: innerStride === 1 ? inner : 1 },
    indices: innerStride === 0 ? indices : sliceOf(indices, "i32", first, inner),
    updates: sliceOf(updates, dtype, first, inner),
    output: sliceOf(output, dtype, first, inner),
  };
}
