import { dtypeBytes, type Resize2dProblem, type ResizedAxis } from "@backplane/core";
import type { BufferRegion, DeviceMemory, OperationContext } from "../../runtime/index.js";
import { WINDOW_ALIGNMENT } from "../../runtime/index.js";
import {
  indivisible,
  middleOf,
  type Run,
  type Segmentation,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";

type Problem = Resize2dProblem<DeviceMemory>;

/**
 * Cuts planes, then rows of the output. Of one row, which is made of two rows of the input at most, columns are cut, and of one
 * column channels: what these are made of is brought together in scratch, if it is not one piece of the input.
 */
export const resizeSegments: Segmentation<Problem> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: () => 0,

  divide(context, problem, run) {
    const { planes, outHeight, outWidth } = problem;
    if (planes > 1) inTwo(planes, (first, count) => run(context, planesOf(problem, first, count)));
    else if (outHeight > 1) inTwo(outHeight, (first, count) => run(context, rowsOf(problem, first, count)));
    else columnsOf(context, rowsOf(problem, 0, 1), 0, outWidth, run);
  },
};

function inTwo(extent: number, run: (first: number, count: number) => void): void {
  const middle = middleOf(extent);
  run(0, middle);
  run(middle, extent - middle);
}

/** What some places along an axis are made of, [from, from + size), and the axis of a problem that has only these. */
function partOf(
  { factor, shift, divisor }: ResizedAxis,
  extent: number,
  first: number,
  count: number,
): { readonly from: number; readonly size: number; readonly axis: ResizedAxis } {
  const numerator = (o: number) => Math.min(Math.max(o * factor + shift, 0), (extent - 1) * divisor);
  const from = Math.floor(numerator(first) / divisor);
  const to = Math.ceil(numerator(first + count - 1) / divisor) + 1;
  return { from, size: to - from, axis: { factor, shift: shift + first * factor - from * divisor, divisor } };
}

function planesOf(problem: Problem, first: number, planes: number): Problem {
  const { dtype, height, width, outHeight, outWidth, inner, input, output } = problem;
  const [size, outputs] = [height * width * inner, outHeight * outWidth * inner];
  return {
    ...{ ...problem, planes },
    input: sliceOf(input, dtype, first * size, planes * size),
    output: sliceOf(output, dtype, first * outputs, planes * outputs),
  };
}

/** Of one plane. */
function rowsOf(problem: Problem, first: number, outHeight: number): Problem {
  const { dtype, height, width, outWidth, inner, y, input, output } = problem;
  const { from, size, axis } = partOf(y, height, first, outHeight);
  const [line, outLine] = [width * inner, outWidth * inner];
  return {
    ...{ ...problem, outHeight, height: size, y: axis },
    input: sliceOf(input, dtype, from * line, size * line),
    output: sliceOf(output, dtype, first * outLine, outHeight * outLine),
  };
}

/** Whether as many elements fit into a binding, wherever they begin. */
function fits({ features }: OperationContext, { dtype }: Problem, elements: number): boolean {
  return elements * dtypeBytes[dtype] + WINDOW_ALIGNMENT <= windowBytes(features);
}

/** Some columns of one row of the output. */
function columnsOf(
  context: OperationContext,
  problem: Problem,
  first: number,
  outWidth: number,
  run: Run<Problem>,
): void {
  const { dtype, height, width, inner, x, input, output } = problem;
  const { from, size, axis } = partOf(x, width, first, outWidth);
  if (!fits(context, problem, Math.max(height * size, outWidth) * inner)) {
    if (outWidth === 1) channelsOf(context, problem, first, 0, inner, run);
    else inTwo(outWidth, (next, count) => columnsOf(context, problem, first + next, count, run));
    return;
  }
  context.scoped((scope) => {
    const lines = Array.from({ length: height }, (_, row) =>
      sliceOf(input, dtype, (row * width + from) * inner, size * inner),
    );
    run(scope, {
      ...{ ...problem, outWidth, width: size, x: axis },
      input: joined(scope, lines),
      output: sliceOf(output, dtype, first * inner, outWidth * inner),
    });
  });
}

/** Some channels of one pixel of the output. */
function channelsOf(
  context: OperationContext,
  problem: Problem,
  column: number,
  first: number,
  channels: number,
  run: Run<Problem>,
): void {
  const { dtype, height, width, inner, x, input, output } = problem;
  const { from, size, axis } = partOf(x, width, column, 1);
  if (!fits(context, problem, height * size * channels)) {
    if (channels === 1) throw indivisible("resize2d", windowBytes(context.features));
    inTwo(channels, (next, count) => channelsOf(context, problem, column, first + next, count, run));
    return;
  }
  context.scoped((scope) => {
    const pixels = Array.from({ length: height * size }, (_, i) => {
      const pixel = Math.floor(i / size) * width + from + (i % size);
      return sliceOf(input, dtype, pixel * inner + first, channels);
    });
    run(scope, {
      ...{ ...problem, outWidth: 1, width: size, inner: channels, x: axis },
      input: joined(scope, pixels),
      output: sliceOf(output, dtype, column * inner + first, channels),
    });
  });
}

/** The regions one after the other, which have the same length. */
function joined(context: OperationContext, regions: readonly BufferRegion[]): BufferRegion {
  const [only] = regions;
  if (regions.length === 1) return only!;
  const { byteLength } = only!;
  const all = context.scratch(byteLength * regions.length);
  for (const [i, region] of regions.entries())
    context.copy({ ...all, byteOffset: all.byteOffset + i * byteLength, byteLength }, region);
  return all;
}
