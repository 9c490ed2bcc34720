import { type ScatterProblem, scatterKinds, scatterTypes } from "@backplane/core";
import { memoized, WORKGROUP_SIZE } from "../../program/index.js";
import type { DeviceMemory, KernelContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { middleOf, type Segmentation, sliceOf, windowBytes, windowOf } from "../segments/index.js";
import { scatterProgram } from "./scatter.wgsl.js";

/** A problem, or, after a division along the axis, a part of it that has some of the rows. */
interface Problem extends ScatterProblem<DeviceMemory> {
  /** The row that index `first` names is the first one here. Default: 0. */
  readonly first?: number;
}

const programOf = memoized(scatterProgram);

function run(context: KernelContext, problem: Problem): void {
  const { dtype, kind, outer, length, count, inner, outerStride, axisStride, innerStride } = problem;
  const { indices, updates, output, first = 0 } = problem;
  const isHalf = dtype === "f16";
  const isWhole = !isHalf || (inner % 2 === 0 && output.byteOffset % 4 === 0);
  const width = isWhole ? (isHalf ? 2 : 1) : outer;
  const total = isWhole ? (outer * inner) / width : 1;
  context.dispatch(
    programOf(isWhole ? "columns" : "alone", kind, dtype),
    { indices, updates, output },
    {
      total,
      length,
      count,
      inner,
      width,
      outer_stride: outerStride,
      axis_stride: axisStride,
      inner_stride: innerStride,
      first,
    },
    Math.ceil(total / WORKGROUP_SIZE),
  );
}

/** Cuts the axes before the given one; then the updates, in order; then the rows of the output; then a row. */
const segments: Segmentation<Problem> = {
  longestWindow: ({ indices, updates, output }) =>
    Math.max(windowOf(indices), windowOf(updates), windowOf(output)),
  scratchBound: () => 0,

  divide(context, problem, run) {
    const { outer, length, count, inner, indices, updates } = problem;
    const isTooLong = Math.max(windowOf(indices), windowOf(updates)) > windowBytes(context.features);
    const [extent, part] =
      outer > 1
        ? ([outer, slab] as const)
        : count > 1 && isTooLong
          ? ([count, some] as const)
          : length > 1
            ? ([length, rows] as const)
            : ([inner, columns] as const);
    const middle = middleOf(extent);
    run(context, part(problem, 0, middle));
    run(context, part(problem, middle, extent - middle));
  },
};

/** Along the axes before the given one. */
function slab(problem: Problem, first: number, outer: number): Problem {
  const { dtype, length, count, inner, outerStride, indices, updates, output } = problem;
  return {
    ...{ ...problem, outer, outerStride: outer === 1 ? 0 : outerStride },
    indices: outerStride === 0 ? indices : sliceOf(indices, "i32", first * outerStride, outer * outerStride),
    updates: sliceOf(updates, dtype, first * count * inner, outer * count * inner),
    output: sliceOf(output, dtype, first * length * inner, outer * length * inner),
  };
}

/** Of one slab: indices and their updates. */
function some(problem: Problem, first: number, count: number): Problem {
  const { dtype, inner, axisStride, indices, updates } = problem;
  return {
    ...{ ...problem, count },
    indices: sliceOf(indices, "i32", first * axisStride, count * axisStride),
    updates: sliceOf(updates, dtype, first * inner, count * inner),
  };
}

/** Of one slab: rows of the output. */
function rows(problem: Problem, first: number, length: number): Problem {
  const { dtype, inner, output, first: before = 0 } = problem;
  return {
    ...{ ...problem, length, first: before + first },
    output: sliceOf(output, dtype, first * inner, length * inner),
  };
}

/** Of one row of the output, and one of updates. */
function columns(problem: Problem, first: number, inner: number): Problem {
  const { dtype, innerStride, indices, updates, output } = problem;
  return {
    ...{ ...problem, inner, axisStride: innerStride === 1 ? inner : 1 },
    indices: innerStride === 0 ? indices : sliceOf(indices, "i32", first, inner),
    updates: sliceOf(updates, dtype, first, inner),
    output: sliceOf(output, dtype, first, inner),
  };
}

/** output[o, indices[o, j, i], i] = kind(that, updates[o, j, i]), for j in order */
export const scatter: OperationEntry<"scatter", Problem> = {
  operation: "scatter",
  supports: [{ dtype: scatterTypes, kind: scatterKinds }],
  run,
  segments: () => segments,
};
