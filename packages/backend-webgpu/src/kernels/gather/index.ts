import { type GatherProblem, gatherTypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import { middleOf, type Segmentation, sliceOf, windowBytes, windowOf } from "../segments/index.js";
import { alongProgram } from "./along.wgsl.js";
import { gatherProgram } from "./gather.wgsl.js";
import { rowsProgram } from "./rows.wgsl.js";
import { planAlong, planGather } from "./select.js";

/** A problem, or, after a division along the axis, a part of it that has some of the rows. */
interface Problem extends GatherProblem<DeviceMemory> {
  /** The row that index `first` names is the first one here. Default: 0. */
  readonly first?: number;
  /** Results whose index is not in range stay as they are. Default: they become 0. */
  readonly keeps?: boolean;
}

const programOf = memoized(gatherProgram);
const alongOf = memoized(alongProgram);
const rowsOf = memoized(rowsProgram);

function run(context: KernelContext, problem: Problem): void {
  const { outer, length, count, outerStride, axisStride, innerStride, first = 0, keeps = false } = problem;
  const regions = { source: problem.input, indices: problem.indices, output: problem.output };
  const along = planAlong(problem);
  if (along !== undefined) {
    context.dispatch(
      alongOf(along.bytes),
      regions,
      {
        lines: outer,
        per_line: along.perLine,
        length,
        count: along.vectors,
        line_stride: along.lineStride,
        first,
        keeps: keeps ? 1 : 0,
      },
      outer * along.perLine,
    );
    return;
  }
  const plan = planGather(problem);
  const { inner, workgroups } = plan;
  if (plan.line !== undefined) {
    context.dispatch(
      rowsOf(plan.unit),
      regions,
      {
        rows: outer * count,
        inner,
        lane_shift: plan.line.laneShift,
        parts: plan.line.parts,
        length,
        count,
        outer_stride: outerStride,
        axis_stride: axisStride,
        first,
        keeps: keeps ? 1 : 0,
      },
      workgroups,
    );
    return;
  }
  context.dispatch(
    programOf(plan.unit),
    regions,
    {
      n: plan.units,
      length,
      count,
      inner,
      outer_stride: outerStride,
      axis_stride: axisStride,
      inner_stride: innerStride,
      first,
      keeps: keeps ? 1 : 0,
    },
    workgroups,
  );
}

/**
 * Cuts the axes before the given one; then the output along the axis, until it and its indices fit; then the rows of the
 * input. All parts of those write the same output: the first one every element, with 0 for an index that is not among
 * its rows, and each of the others the elements that are. What is left after that is part of one row.
 */
const segments: Segmentation<Problem> = {
  longestWindow: ({ input, indices, output }) =>
    Math.max(windowOf(input), windowOf(indices), windowOf(output)),
  scratchBound: () => 0,

  divide(context, problem, run) {
    for (const part of halves(context, problem)) run(context, part);
  },
};

function halves({ features }: OperationContext, problem: Problem): readonly Problem[] {
  const { outer, length, count, inner, indices, output } = problem;
  const isTooLong = Math.max(windowOf(indices), windowOf(output)) > windowBytes(features);
  if (outer > 1) return inTwo(outer, (first, extent) => slab(problem, first, extent));
  if (count > 1 && isTooLong) return inTwo(count, (first, extent) => results(problem, first, extent));
  if (length > 1) return inTwo(length, (first, extent) => rows(problem, first, extent));
  return inTwo(inner, (first, extent) => columns(problem, first, extent));
}

function inTwo(
  extent: number,
  part: (first: number, extent: number) => Problem,
): readonly [Problem, Problem] {
  const middle = middleOf(extent);
  return [part(0, middle), part(middle, extent - middle)];
}

/** Along the axes before the given one. */
function slab(problem: Problem, first: number, outer: number): Problem {
  const { dtype, length, count, inner, outerStride, input, indices, output } = problem;
  return {
    ...{ ...problem, outer, outerStride: outer === 1 ? 0 : outerStride },
    input: sliceOf(input, dtype, first * length * inner, outer * length * inner),
    indices: outerStride === 0 ? indices : sliceOf(indices, "i32", first * outerStride, outer * outerStride),
    output: sliceOf(output, dtype, first * count * inner, outer * count * inner),
  };
}

/** Of one slab: indices and their results. */
function results(problem: Problem, first: number, count: number): Problem {
  const { dtype, inner, axisStride, indices, output } = problem;
  return {
    ...{ ...problem, count },
    indices: sliceOf(indices, "i32", first * axisStride, count * axisStride),
    output: sliceOf(output, dtype, first * inner, count * inner),
  };
}

/** Of one slab: rows of the input. */
function rows(problem: Problem, first: number, length: number): Problem {
  const { dtype, inner, input, first: before = 0, keeps = false } = problem;
  return {
    ...{ ...problem, length, first: before + first, keeps: keeps || first > 0 },
    input: sliceOf(input, dtype, first * inner, length * inner),
  };
}

/** Of one row of the input, and one of the output. */
function columns(problem: Problem, first: number, inner: number): Problem {
  const { dtype, innerStride, input, indices, output } = problem;
  return {
    ...{ ...problem, inner, axisStride: innerStride === 1 ? inner : 1 },
    input: sliceOf(input, dtype, first, inner),
    indices: innerStride === 0 ? indices : sliceOf(indices, "i32", first, inner),
    output: sliceOf(output, dtype, first, inner),
  };
}

/** output[o, j, i] = input[o, indices[o, j, i], i], or 0 for an index out of range */
export const gather: OperationEntry<"gather", Problem> = {
  operation: "gather",
  supports: [{ dtype: gatherTypes }],
  run,
  segments: () => segments,
};
