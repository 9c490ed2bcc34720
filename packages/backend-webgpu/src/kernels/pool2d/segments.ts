import type { DType } from "@backplane/core";
import type { BufferRegion, OperationContext } from "../../runtime/index.js";
import { axesOf, startOf, tapsOf } from "../images/index.js";
import {
  indivisible,
  middleOf,
  type Run,
  type Segmentation,
  sliceOf,
  storeFarRounded,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import type { Problem } from "./problem.js";

/**
 * Cuts planes, then rows of the output. Of one row whose input does not fit, each row of the windows is a part of its own,
 * which continues the results of those before; of one row, columns of the output are cut, then those of the windows, then
 * channels. The sums of a mean in f16 are f32 until all parts are added.
 */
export const poolSegments: Segmentation<Problem> = {
  longestWindow: ({ input, output, indices }) =>
    Math.max(windowOf(input), windowOf(output), indices === undefined ? 0 : windowOf(indices)),
  scratchBound: ({ indices }) => indices?.byteLength ?? 0,

  divide(context, problem, run) {
    const { planes, outHeight, outWidth, inner, height } = problem;
    if (planes > 1) inTwo(planes, (first, count) => run(context, planesOf(problem, first, count)));
    else if (outHeight > 1) inTwo(outHeight, (first, count) => run(context, rowsOf(problem, first, count)));
    else if (height > 1) byRows(context, problem, run);
    else if (outWidth > 1) inTwo(outWidth, (first, count) => run(context, columnsOf(problem, first, count)));
    else if (problem.width > 1) byColumns(context, problem, run);
    else if (inner > 1) inTwo(inner, (first, count) => run(context, channelsOf(problem, first, count)));
    else throw indivisible("pool2d", windowBytes(context.features));
  },
};

function inTwo(extent: number, run: (first: number, count: number) => void): void {
  const middle = middleOf(extent);
  run(0, middle);
  run(middle, extent - middle);
}

/** The results from `first` on, in each of the outputs. */
function outputsOf(problem: Problem, first: number, count: number): Pick<Problem, "output" | "indices"> {
  const { dtype, output, indices, isPartial = false } = problem;
  const type: DType = isPartial ? "f32" : dtype;
  return {
    output: sliceOf(output, type, first, count),
    indices: indices && sliceOf(indices, "i32", first, count),
  };
}

function planesOf(problem: Problem, first: number, planes: number): Problem {
  const { dtype, height, width, outHeight, outWidth, inner, input } = problem;
  const [size, outputs] = [height * width * inner, outHeight * outWidth * inner];
  return {
    ...{ ...problem, planes },
    input: sliceOf(input, dtype, first * size, planes * size),
    ...outputsOf(problem, first * outputs, planes * outputs),
  };
}

/** Of one plane: some rows of results, and the rows of the input that their windows meet. */
function rowsOf(problem: Problem, first: number, outHeight: number): Problem {
  const { dtype, height, width, outWidth, inner, input, bottom, firstPlace = 0 } = problem;
  const { y } = axesOf(problem);
  const start = startOf(y, first);
  const from = Math.max(0, start);
  const to = Math.min(height, startOf(y, first + outHeight - 1) + (y.taps - 1) * y.spread + 1);
  const line = width * inner;
  return {
    ...{ ...problem, outHeight, height: to - from, top: from - start, bottom: height + bottom - to },
    firstPlace: firstPlace + from * width,
    input: sliceOf(input, dtype, from * line, (to - from) * line),
    ...outputsOf(problem, first * outWidth * inner, outHeight * outWidth * inner),
  };
}

/** Of one row of windows with one row each: some results, and the columns that their windows meet. */
function columnsOf(problem: Problem, first: number, outWidth: number): Problem {
  const { dtype, width, inner, input, right, firstPlace = 0 } = problem;
  const { x } = axesOf(problem);
  const start = startOf(x, first);
  const from = Math.max(0, start);
  const to = Math.min(width, startOf(x, first + outWidth - 1) + (x.taps - 1) * x.spread + 1);
  return {
    ...{ ...problem, outWidth, width: to - from, left: from - start, right: width + right - to },
    firstPlace: firstPlace + from,
    input: sliceOf(input, dtype, from * inner, (to - from) * inner),
    ...outputsOf(problem, first * inner, outWidth * inner),
  };
}

/** One row of results, by the rows of their windows. */
function byRows(context: OperationContext, problem: Problem, run: Run<Problem>): void {
  const { dtype, width, inner, input, firstPlace = 0, kernelHeight, countPadding } = problem;
  const { y } = axesOf(problem);
  const { first, end, counted } = tapsOf(y, 0, countPadding);
  summed(context, problem, kernelHeight > 1, (whole) => {
    for (let tap = first; tap < end; tap++) {
      const row = startOf(y, 0) + tap * y.spread;
      run(context, {
        ...{ ...whole, height: 1, kernelHeight: 1, top: 0, bottom: 0, strideY: 1, dilationY: 1 },
        ...{ rowsCounted: problem.rowsCounted ?? counted, firstPlace: firstPlace + row * width },
        continues: whole.continues === true || tap > first,
        input: sliceOf(input, dtype, row * width * inner, width * inner),
      });
    }
  });
}

/** One window of one row, by its elements. */
function byColumns(context: OperationContext, problem: Problem, run: Run<Problem>): void {
  const { dtype, inner, input, firstPlace = 0, kernelWidth, countPadding } = problem;
  const { x } = axesOf(problem);
  const { first, end, counted } = tapsOf(x, 0, countPadding);
  summed(context, problem, kernelWidth > 1, (whole) => {
    for (let tap = first; tap < end; tap++) {
      const column = startOf(x, 0) + tap * x.spread;
      run(context, {
        ...{ ...whole, width: 1, kernelWidth: 1, left: 0, right: 0, strideX: 1, dilationX: 1 },
        ...{ columnsCounted: problem.columnsCounted ?? counted, firstPlace: firstPlace + column },
        continues: whole.continues === true || tap > first,
        input: sliceOf(input, dtype, column * inner, inner),
      });
    }
  });
}

/** Gives `add` the problem, or, if rounded sums would be added up, one with sums of f32, which are rounded at the end. */
function summed(
  context: OperationContext,
  problem: Problem,
  isSum: boolean,
  add: (whole: Problem) => void,
): void {
  const { dtype, kind, outWidth, inner, output, isPartial = false } = problem;
  const store = storeFarRounded[dtype];
  if (!isSum || kind !== "mean" || isPartial || store === undefined) {
    add(problem);
    return;
  }
  const columns = outWidth * inner;
  const sums: BufferRegion = context.scratch(4 * columns);
  add({ ...problem, isPartial: true, output: sums });
  const layout = { batch: 1, rows: 1, columns, rowStride: columns, batchStride: columns };
  store(context, sums, output, layout);
}

/** Of one element of each channel. */
function channelsOf(problem: Problem, first: number, inner: number): Problem {
  return {
    ...{ ...problem, inner },
    input: sliceOf(problem.input, problem.dtype, first, inner),
    ...outputsOf(problem, first, inner),
  };
}
