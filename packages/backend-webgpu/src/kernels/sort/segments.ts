import { dtypeBytes, moveProblem, type SortProblem } from "@backplane/core";
import {
  type BufferRegion,
  type DeviceMemory,
  type OperationContext,
  WINDOW_ALIGNMENT,
} from "../../runtime/index.js";
import {
  middleOf,
  type Run,
  type Segmentation,
  type SegmentTools,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { sortByDigits } from "./digits.js";
import { flipOf } from "./keys.wgsl.js";
import { placed, WORD } from "./regions.js";
import { itemsFor, mostItems } from "./select.js";
import { tileRecords } from "./tile.wgsl.js";

type Problem = SortProblem<DeviceMemory>;

const present = (region: BufferRegion | undefined): region is BufferRegion => region !== undefined;

/** Cuts the outermost axis; of a single slab, moves columns to rows; and sorts a single row in pieces. */
export function sortSegments({ run: runOther }: SegmentTools<Problem>): Segmentation<Problem> {
  return {
    longestWindow: ({ input, values, indices }) =>
      Math.max(...[input, values, indices].filter(present).map(windowOf)),
    scratchBound: ({ outer, length, inner }) => WORD * outer * length * inner,

    divide(context, problem, run) {
      const { outer, inner } = problem;
      if (outer > 1) {
        const middle = middleOf(outer);
        run(context, slabs(problem, 0, middle));
        run(context, slabs(problem, middle, outer - middle));
      } else if (inner > 1) asColumns(context, problem, runOther, run);
      else inPieces(context, problem, runOther);
    },
  };
}

function slabs(problem: Problem, first: number, outer: number): Problem {
  const { dtype, length, inner, count, input, values, indices } = problem;
  const [from, results] = [length * inner, count * inner];
  return {
    ...{ ...problem, outer },
    input: sliceOf(input, dtype, first * from, outer * from),
    values: values && sliceOf(values, dtype, first * results, outer * results),
    indices: indices && sliceOf(indices, "i32", first * results, outer * results),
  };
}

/** Of a single slab: some columns after the others, as rows that follow one another. */
function asColumns(
  context: OperationContext,
  problem: Problem,
  runOther: SegmentTools<Problem>["run"],
  run: Run<Problem>,
): void {
  const { dtype, length, inner, count, input, values, indices } = problem;
  const most = Math.floor((windowBytes(context.features) - WINDOW_ALIGNMENT) / (WORD * length));
  const columns = Math.max(1, Math.min(most, inner));
  for (let column = 0; column < inner; column += columns) {
    const width = Math.min(columns, inner - column);
    context.scoped((scope) => {
      const partOf = (region: BufferRegion, type: "i32" | typeof dtype, lines: number) =>
        sliceOf(region, type, column, (lines - 1) * inner + width);
      const scratchOf = (type: "i32" | typeof dtype, lines: number) =>
        scope.scratch(dtypeBytes[type] * width * lines);
      const rows = scratchOf(dtype, length);
      runOther(
        "copy",
        scope,
        moveProblem(dtype, [width, length], [1, inner], [length, 1], partOf(input, dtype, length), rows),
      );
      const rowValues = values && scratchOf(dtype, count);
      const rowIndices = indices && scratchOf("i32", count);
      run(scope, { ...problem, outer: width, inner: 1, input: rows, values: rowValues, indices: rowIndices });
      const back = (type: "i32" | typeof dtype, region: BufferRegion, rowResults: BufferRegion) =>
        runOther(
          "copy",
          scope,
          moveProblem(type, [count, width], [1, count], [inner, 1], rowResults, partOf(region, type, count)),
        );
      if (values !== undefined) back(dtype, values, rowValues!);
      if (indices !== undefined) back("i32", indices, rowIndices!);
    });
  }
}

/** The elements of pieces, each of which a binding shows wherever it begins: whole tiles if it shows one. */
function pieceLength(context: OperationContext): number {
  const most = Math.floor((windowBytes(context.features) - WINDOW_ALIGNMENT) / WORD);
  const tile = tileRecords(itemsFor(most, mostItems(context.features)));
  return most < tile ? most : most - (most % tile);
}

/** Of a single row. */
function inPieces(context: OperationContext, problem: Problem, runOther: SegmentTools<Problem>["run"]): void {
  const { dtype, length: rowLength, count, descending, input, values, indices } = problem;
  const length = pieceLength(context);
  const sources = Array.from({ length: Math.ceil(rowLength / length) }, (_, i) => ({
    data: sliceOf(input, dtype, i * length, Math.min(length, rowLength - i * length)),
  }));
  const windows = Array.from({ length: Math.ceil(count / length) }, (_, i) => {
    const [first, own] = [i * length, Math.min(length, count - i * length)];
    return placed(
      context,
      dtype,
      values && sliceOf(values, dtype, first, own),
      indices && sliceOf(indices, "i32", first, own),
    );
  });
  sortByDigits(
    context,
    { dtype, count: 1, length: rowLength, kept: count, flip: descending ? flipOf[dtype] : 0 },
    {
      ...{ length, sources },
      results: windows.map(({ results }) => results),
      addUp: (problem) => runOther("scan", context, problem),
    },
  );
  for (const { store } of windows) store();
}
