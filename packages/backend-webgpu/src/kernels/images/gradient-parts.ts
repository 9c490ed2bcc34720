import type { DType, FloatType, OperationName } from "@backplane/core";
import type { BufferRegion, OperationContext } from "../../runtime/index.js";
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

/** Some rows and columns of each image, in the coordinates of the whole image. */
export interface Rectangle {
  readonly row: number;
  readonly column: number;
  readonly rows: number;
  readonly columns: number;
}

/** The gradient of an operation on images by its input, or a part of it. Regions hold the rectangles alone. */
export interface GradientProblem {
  readonly dtype: FloatType;
  readonly planes: number;
  readonly height: number;
  readonly width: number;
  readonly inner: number;
  readonly outHeight: number;
  readonly outWidth: number;
  readonly outputGradient: BufferRegion;
  readonly inputGradient: BufferRegion;
  /** i32, one for each element of the outputGradient. */
  readonly indices?: BufferRegion | undefined;
  /** What is written. Default: whole images. */
  readonly inputs?: Rectangle;
  /** What is read. Default: all results. */
  readonly results?: Rectangle;
  /** Adds to the sums of earlier parts, which are in the inputGradient. Default: false. */
  readonly continues?: boolean;
  /** The inputGradient is f32. Default: false. */
  readonly isPartial?: boolean;
}

export function inputsOf({ inputs, height, width }: GradientProblem): Rectangle {
  return inputs ?? { row: 0, column: 0, rows: height, columns: width };
}

export function resultsOf({ results, outHeight, outWidth }: GradientProblem): Rectangle {
  return results ?? { row: 0, column: 0, rows: outHeight, columns: outWidth };
}

export interface Range {
  readonly first: number;
  readonly end: number;
}

/** Which results some rows, or columns, of the input are elements of. Others may be among them. */
export interface Reach<Problem> {
  readonly rows: (problem: Problem, row: number, rows: number) => Range;
  readonly columns: (problem: Problem, column: number, columns: number) => Range;
}

/**
 * Cuts planes, then rows of the input. Of one row, the sums over some rows of results after others are added up, until these
 * are one row too; then columns are cut in the same way, and channels at last. Sums in f16 are f32 until all parts are added.
 */
export function gradientSegments<Problem extends GradientProblem>(
  operation: OperationName,
  reach: Reach<Problem>,
): Segmentation<Problem> {
  return {
    longestWindow: ({ outputGradient, inputGradient, indices }) =>
      Math.max(
        windowOf(outputGradient),
        windowOf(inputGradient),
        indices === undefined ? 0 : windowOf(indices),
      ),
    scratchBound: () => 0,

    divide(context, problem, run) {
      const { planes, inner } = problem;
      const [inputs, results] = [inputsOf(problem), resultsOf(problem)];
      if (planes > 1) inTwo(planes, (first, count) => run(context, planesOf(problem, first, count)));
      else if (inputs.rows > 1)
        inTwo(inputs.rows, (first, rows) => {
          const row = inputs.row + first;
          const met = within(reach.rows(problem, row, rows), results.row, results.rows);
          const [part, some] = [
            { ...inputs, row, rows },
            { ...results, row: met.first, rows: met.end - met.first },
          ];
          run(context, rectanglesOf(problem, part, some));
        });
      else if (results.rows > 1)
        summed(context, problem, run, (whole, add) =>
          inTwo(results.rows, (first, rows) => {
            const some = { ...results, row: results.row + first, rows };
            add(rectanglesOf(whole, inputs, some), first > 0);
          }),
        );
      else if (inputs.columns > 1)
        inTwo(inputs.columns, (first, columns) => {
          const column = inputs.column + first;
          const met = within(reach.columns(problem, column, columns), results.column, results.columns);
          const [part, some] = [
            { ...inputs, column, columns },
            { ...results, column: met.first, columns: met.end - met.first },
          ];
          run(context, rectanglesOf(problem, part, some));
        });
      else if (results.columns > 1)
        summed(context, problem, run, (whole, add) =>
          inTwo(results.columns, (first, columns) => {
            const some = { ...results, column: results.column + first, columns };
            add(rectanglesOf(whole, inputs, some), first > 0);
          }),
        );
      else if (inner > 1) inTwo(inner, (first, count) => run(context, channelsOf(problem, first, count)));
      else throw indivisible(operation, windowBytes(context.features));
    },
  };
}

function inTwo(extent: number, run: (first: number, count: number) => void): void {
  const middle = middleOf(extent);
  run(0, middle);
  run(middle, extent - middle);
}

/** Some of `count` places from `from` on: no operand may be empty. */
function within({ first, end }: Range, from: number, count: number): Range {
  const last = from + count - 1;
  const begin = Math.min(Math.max(first, from), last);
  return { first: begin, end: Math.max(begin, Math.min(end - 1, last)) + 1 };
}

/** Parts of the operands, in elements. */
function sliced<Problem extends GradientProblem>(
  problem: Problem,
  read: readonly [first: number, count: number],
  written: readonly [first: number, count: number],
): Pick<GradientProblem, "outputGradient" | "inputGradient" | "indices"> {
  const { dtype, outputGradient, inputGradient, indices, isPartial = false } = problem;
  const type: DType = isPartial ? "f32" : dtype;
  return {
    outputGradient: sliceOf(outputGradient, dtype, ...read),
    indices: indices && sliceOf(indices, "i32", ...read),
    inputGradient: sliceOf(inputGradient, type, ...written),
  };
}

function planesOf<Problem extends GradientProblem>(problem: Problem, first: number, planes: number): Problem {
  const { inner } = problem;
  const [inputs, results] = [inputsOf(problem), resultsOf(problem)];
  const elements = inputs.rows * inputs.columns * inner;
  const windows = results.rows * results.columns * inner;
  return {
    ...{ ...problem, planes },
    ...sliced(problem, [first * windows, planes * windows], [first * elements, planes * elements]),
  };
}

/** Of one plane: rectangles in those that it has. Of several rows, columns are all. */
function rectanglesOf<Problem extends GradientProblem>(
  problem: Problem,
  inputs: Rectangle,
  results: Rectangle,
): Problem {
  const { inner } = problem;
  const span = (part: Rectangle, whole: Rectangle): readonly [number, number] => [
    ((part.row - whole.row) * whole.columns + part.column - whole.column) * inner,
    part.rows * part.columns * inner,
  ];
  return {
    ...{ ...problem, inputs, results },
    ...sliced(problem, span(results, resultsOf(problem)), span(inputs, inputsOf(problem))),
  };
}

/** Of one element of each channel, and one result. */
function channelsOf<Problem extends GradientProblem>(
  problem: Problem,
  first: number,
  inner: number,
): Problem {
  const [inputs, results] = [inputsOf(problem), resultsOf(problem)];
  return {
    ...{ ...problem, inner, inputs, results },
    ...sliced(problem, [first, inner], [first, inner]),
  };
}

/** Adds up parts of one row, in sums of f32 if rounded ones would be added up. */
function summed<Problem extends GradientProblem>(
  context: OperationContext,
  problem: Problem,
  run: Run<Problem>,
  divide: (whole: Problem, add: (part: Problem, isNext: boolean) => void) => void,
): void {
  const { dtype, inner, inputGradient, isPartial = false, continues = false } = problem;
  const add = (part: Problem, isNext: boolean) => run(context, { ...part, continues: continues || isNext });
  const store = storeFarRounded[dtype];
  if (isPartial || store === undefined) {
    divide(problem, add);
    return;
  }
  const columns = inputsOf(problem).columns * inner;
  const sums = context.scratch(4 * columns);
  divide({ ...problem, isPartial: true, inputGradient: sums }, add);
  const layout = { batch: 1, rows: 1, columns, rowStride: columns, batchStride: columns };
  store(context, sums, inputGradient, layout);
}
