import { type ArgReduceProblem, dtypeBytes, floatTypes, integerTypes } from "@backplane/core";
import { memoized } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext, OperationContext } from "../../runtime/index.js";
import type { OperationEntry } from "../operation.js";
import {
  middleOf,
  type Segmentation,
  slabPieces,
  sliceOf,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { argReduceProgram, joinProgram, type Result } from "./arg-reduce.wgsl.js";
import { leastSegment, planArgReduce, planJoin } from "./select.js";

type Problem = ArgReduceProblem<DeviceMemory>;

/** Bytes of a pair (key, place). */
const PAIR = 8;

const search = memoized(argReduceProgram);
const join = memoized(joinProgram);

/** output[o * inner + i] = the first place of the best element of the row (o, i) */
function run(context: KernelContext, problem: Problem): void {
  find(context, problem, problem.output, "places", 0);
}

/** Places count from `firstPlace`. */
function find(
  context: KernelContext,
  { kind, dtype, outer, length, inner, input }: Problem,
  output: BufferRegion,
  result: Result,
  firstPlace: number,
): void {
  const results = outer * inner;
  const most = Math.max(1, Math.floor(windowBytes(context.features) / (PAIR * results)));
  const plan = planArgReduce(dtype, { outer, length, inner }, input.byteOffset, most);
  const { along, vector, lanes, segments } = plan;
  const isWhole = segments === 1;
  const found = isWhole ? output : context.scratch(PAIR * results * segments);
  context.dispatch(
    search({ kind, dtype, along, vector, lanes, result: isWhole ? result : "pairs" }),
    { data: input, output: found },
    {
      ...{ rows: plan.rows, length: plan.length, inner: plan.inner },
      ...{ segment_length: plan.segmentLength, row_blocks: plan.rowBlocks, first_place: firstPlace },
    },
    plan.rowBlocks * segments,
  );
  if (!isWhole) joinPairs(context, results, segments, found, output, result);
}

/** output[row] = the best of pairs[segment * rows + row] */
function joinPairs(
  context: KernelContext,
  rows: number,
  segments: number,
  pairs: BufferRegion,
  output: BufferRegion,
  result: Result,
): void {
  const { lanes, length, inner, segmentLength, rowBlocks } = planJoin(rows, segments);
  context.dispatch(
    join({ lanes, result }),
    { data: pairs, output },
    { rows, length, inner, segment_length: segmentLength, row_blocks: rowBlocks, first_place: 0 },
    rowBlocks,
  );
}

/** Cuts the outermost axis, and a single slab into pieces whose pairs are joined. */
const segments: Segmentation<Problem> = {
  longestWindow: ({ input, output }) => Math.max(windowOf(input), windowOf(output)),
  scratchBound: ({ outer, length, inner }) =>
    length < 2 * leastSegment ? 0 : PAIR * outer * inner * Math.ceil(length / leastSegment),

  divide(context, problem, run) {
    const { outer, length, inner } = problem;
    if (outer === 1) {
      inPieces(context, problem);
      return;
    }
    const middle = middleOf(outer);
    run(context, pieceOf(problem, 0, 0, { outer: middle }));
    run(context, pieceOf(problem, middle * length * inner, middle * inner, { outer: outer - middle }));
  },
};

/** The problem of these extents whose elements, which follow one another, and results begin at these. */
function pieceOf(problem: Problem, first: number, firstResult: number, extents: Partial<Problem>): Problem {
  const piece = { ...problem, ...extents };
  const { dtype, outer, length, inner } = piece;
  return {
    ...piece,
    input: sliceOf(problem.input, dtype, first, outer * length * inner),
    output: sliceOf(problem.output, "i32", firstResult, outer * inner),
  };
}

function inPieces(context: OperationContext, problem: Problem): void {
  const { dtype, length, inner } = problem;
  // Scratch has room for two pairs of each column.
  const { columns, height } = slabPieces(context.features, inner, dtypeBytes[dtype], 2 * PAIR);
  for (let column = 0; column < inner; column += columns) {
    const width = Math.min(columns, inner - column);
    context.scoped((scope) => {
      // The pairs so far and those of the next piece, and room for the best of them.
      let [now, next] = [scope.scratch(2 * PAIR * width), scope.scratch(2 * PAIR * width)];
      for (let line = 0; line < length; line += height) {
        const extents = { length: Math.min(height, length - line), inner: width };
        const piece = pieceOf(problem, line * inner + column, column, extents);
        const isFirst = line === 0;
        const isLast = line + height >= length;
        scope.scoped((own) => {
          if (isFirst && isLast) find(own, piece, piece.output, "places", 0);
          else find(own, piece, pairsOf(now, isFirst ? 0 : 1, width), "pairs", line);
          if (isFirst) return;
          if (isLast) joinPairs(own, width, 2, now, piece.output, "places");
          else joinPairs(own, width, 2, now, pairsOf(next, 0, width), "pairs");
        });
        if (!isFirst) [now, next] = [next, now];
      }
    });
  }
}

function pairsOf(region: BufferRegion, index: number, rows: number): BufferRegion {
  const byteLength = PAIR * rows;
  return { ...region, byteOffset: region.byteOffset + index * byteLength, byteLength };
}

export const argReduce: OperationEntry<"argReduce", Problem> = {
  operation: "argReduce",
  supports: [{ dtype: [...floatTypes, ...integerTypes] }],
  run,
  segments: () => segments,
};
