import { dtypeBytes, type FloatType } from "@backplane/core";
import type { BufferRegion, OperationContext } from "../../runtime/index.js";
import { WINDOW_ALIGNMENT } from "../../runtime/index.js";
import { joinAll, MOMENTS, runMoments } from "../normalize/index.js";
import { leastSegment } from "../rows/index.js";
import { linePiece, type Segmentation, sliceOf, windowBytes, windowOf } from "../segments/index.js";
import {
  type BlockSums,
  FACTS,
  joinMeans,
  MEANS,
  type Problem,
  runBlocks,
  runColumns,
  runFacts,
  runMeans,
  wantsSums,
  writeTotal,
} from "./passes.js";
import { sumsBound } from "./select.js";

/** Rows of a piece are a multiple of this if possible, so that vectors stay aligned. */
const GRAIN = 64;

/**
 * Cuts rows from each other, whose sums are added in f32. Rows too long for a window are seen piece by piece: for what is
 * known of each of them, and then for results and the sums of their columns.
 */
export const gradientSegments: Segmentation<Problem> = {
  longestWindow(problem) {
    let longest = 0;
    for (const region of [
      ...[problem.input, problem.weight, problem.outputGradient, problem.mean, problem.inverseDeviation],
      ...[problem.inputGradient, problem.weightGradient, problem.biasGradient],
    ])
      if (region !== undefined) longest = Math.max(longest, windowOf(region));
    return longest;
  },

  scratchBound(problem) {
    const { rows, size } = problem;
    const ofRows = Math.max(FACTS, MOMENTS) * rows * Math.max(1, Math.ceil(size / leastSegment));
    return Math.max(ofRows, wantsSums(problem) ? sumsBound(rows, size) : 0);
  },

  divide(context, problem) {
    const { dtype, size } = problem;
    const room = windowBytes(context.features) - WINDOW_ALIGNMENT;
    const fitting = Math.floor(room / Math.max(size * dtypeBytes[dtype], FACTS));
    const sumsFit = !wantsSums(problem) || 4 * size <= room;
    if (fitting >= 1 && sumsFit)
      byRows(context, problem, fitting > GRAIN ? fitting - (fitting % GRAIN) : fitting);
    else byColumns(context, problem);
  },
};

function someRows(problem: Problem, first: number, rows: number): Problem {
  const { dtype, size, input, outputGradient, mean, inverseDeviation, inputGradient } = problem;
  const slice = (region: BufferRegion) => sliceOf(region, dtype, first * size, rows * size);
  return {
    ...{ ...problem, rows, input: slice(input), outputGradient: slice(outputGradient) },
    inputGradient: inputGradient && slice(inputGradient),
    mean: mean && sliceOf(mean, "f32", first, rows),
    inverseDeviation: inverseDeviation && sliceOf(inverseDeviation, "f32", first, rows),
  };
}

/** Elements [first, first + size) of each row; there must be one row. */
function someColumns(problem: Problem, first: number, size: number): Problem {
  const slice = (region: BufferRegion) => sliceOf(region, problem.dtype, first, size);
  const { input, outputGradient, weight, inputGradient, weightGradient, biasGradient } = problem;
  return {
    ...{ ...problem, size, input: slice(input), outputGradient: slice(outputGradient) },
    ...{ weight: weight && slice(weight), inputGradient: inputGradient && slice(inputGradient) },
    ...{ weightGradient: weightGradient && slice(weightGradient) },
    biasGradient: biasGradient && slice(biasGradient),
  };
}

/** The sums of all pieces so far, in f32. */
class Totals {
  readonly #problem: Problem;
  readonly #weights: BufferRegion | undefined;
  readonly #biases: BufferRegion | undefined;
  #isEmpty = true;

  constructor(context: OperationContext, problem: Problem) {
    this.#problem = problem;
    const bytes = 4 * problem.size;
    this.#weights = problem.weightGradient && context.scratch(bytes);
    this.#biases = problem.biasGradient && context.scratch(bytes);
  }

  add(context: OperationContext, sums: BlockSums | undefined): void {
    if (sums === undefined) return;
    const { blocks, weights, biases } = sums;
    this.#write(context, this.#weights, weights, blocks);
    this.#write(context, this.#biases, biases, blocks);
    this.#isEmpty = false;
  }

  #write(
    context: OperationContext,
    total: BufferRegion | undefined,
    sums: BufferRegion | undefined,
    blocks: number,
  ): void {
    if (total !== undefined && sums !== undefined)
      writeTotal(context, sums, blocks, this.#problem.size, total, "f32", !this.#isEmpty);
  }

  /** Writes them, in the type of the outputs. */
  finish(context: OperationContext): void {
    const { dtype, size, accumulate, weightGradient, biasGradient } = this.#problem;
    const write = (total: BufferRegion | undefined, output: BufferRegion | undefined, type: FloatType) => {
      if (total !== undefined && output !== undefined)
        writeTotal(context, total, 1, size, output, type, accumulate);
    };
    write(this.#weights, weightGradient, dtype);
    write(this.#biases, biasGradient, dtype);
  }
}

function byRows(context: OperationContext, problem: Problem, most: number): void {
  const totals = new Totals(context, problem);
  for (let first = 0; first < problem.rows; first += most)
    context.scoped((scope) => {
      const piece = someRows(problem, first, Math.min(most, problem.rows - first));
      totals.add(scope, runBlocks(scope, piece));
    });
  totals.finish(context);
}

/** Rows are few if a window does not show one. */
function byColumns(context: OperationContext, problem: Problem): void {
  const { rows, size, inputGradient, weightGradient } = problem;
  // Sums take 4 bytes.
  const length = linePiece(context.features, dtypeBytes.f32);
  const places: (readonly [first: number, count: number])[] = [];
  for (let first = 0; first < size; first += length) places.push([first, Math.min(length, size - first)]);
  const rowsOf = Array.from({ length: rows }, (_, row) => someRows(problem, row, 1));
  const piecesOf = (row: Problem) => places.map(([first, count]) => someColumns(row, first, count));
  const part = (region: BufferRegion, bytes: number, index: number): BufferRegion => ({
    ...region,
    byteOffset: region.byteOffset + bytes * index,
    byteLength: bytes,
  });

  const needsInput = inputGradient !== undefined || weightGradient !== undefined;
  const facts = needsInput ? context.scratch(FACTS * rows) : undefined;
  const means = inputGradient === undefined ? undefined : context.scratch(MEANS * rows);
  const factsAt = (row: number) => facts && part(facts, FACTS, row);
  const meansAt = (row: number) => means && part(means, MEANS, row);
  for (const [i, row] of rowsOf.entries()) {
    if (facts !== undefined)
      context.scoped((scope) => factsOfRow(scope, row, piecesOf(row), part(facts, FACTS, i), part));
    if (facts !== undefined && means !== undefined)
      context.scoped((scope) => {
        // Those so far, and those of the next piece.
        let [now, next] = [scope.scratch(2 * MEANS), scope.scratch(2 * MEANS)];
        for (const [j, piece] of piecesOf(row).entries()) {
          const isLast = j === places.length - 1;
          scope.scoped((own) => {
            runMeans(own, piece, factsAt(i)!, part(now, MEANS, j === 0 ? 0 : 1), 0);
            if (j === 0) return;
            joinMeans(own, 1, 2, now, isLast ? meansAt(i)! : part(next, MEANS, 0), isLast ? size : 0);
          });
          if (j > 0) [now, next] = [next, now];
        }
        if (places.length === 1) joinMeans(scope, 1, 1, part(now, MEANS, 0), meansAt(i)!, size);
      });
  }
  for (const [first, count] of places)
    context.scoped((scope) => {
      const totals = new Totals(scope, someColumns(rowsOf[0]!, first, count));
      for (const [i, row] of rowsOf.entries())
        scope.scoped((own) => {
          const piece = someColumns(row, first, count);
          totals.add(own, runColumns(own, piece, factsAt(i), meansAt(i)));
        });
      totals.finish(scope);
    });
}

function factsOfRow(
  context: OperationContext,
  row: Problem,
  pieces: readonly Problem[],
  facts: BufferRegion,
  part: (region: BufferRegion, bytes: number, index: number) => BufferRegion,
): void {
  if (row.inverseDeviation !== undefined) {
    runFacts(context, row, facts);
    return;
  }
  const parts = context.scratch(MOMENTS * pieces.length);
  for (const [i, piece] of pieces.entries())
    context.scoped((scope) => runMoments(scope, piece, part(parts, MOMENTS, i), false));
  joinAll(context, pieces.length, parts, facts, row.epsilon);
}
