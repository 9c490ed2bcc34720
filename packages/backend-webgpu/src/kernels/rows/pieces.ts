import { dtypeBytes, type FloatType } from "@backplane/core";
import type { BufferRegion, OperationContext } from "../../runtime/index.js";
import { middleOf, type Run, slabPieces } from "../segments/index.js";
import type { Extents } from "./select.js";

/** The passes of an operation that makes facts of rows, and then results of elements and facts. */
export interface RowPasses<Problem extends Extents & { readonly dtype: FloatType }> {
  /** Bytes of the facts of a row. */
  readonly factBytes: number;
  /** Returns the problem of these extents whose elements, which follow one another, begin at `first`. */
  pieceOf(problem: Problem, first: number, extents: Partial<Extents>): Problem;
  /** facts[row] of the rows of a problem; `isLast`: nothing is joined with them any more. */
  statistics(context: OperationContext, problem: Problem, facts: BufferRegion, isLast: boolean): void;
  /** facts[row] = those of parts[row] and of parts[rows + row] */
  join(
    context: OperationContext,
    problem: Problem,
    rows: number,
    parts: BufferRegion,
    facts: BufferRegion,
    isLast: boolean,
  ): void;
  apply(context: OperationContext, problem: Problem, facts: BufferRegion): void;
}

/**
 * Cuts the outermost axis. A single slab too long for a window is seen piece by piece: first all of it for the
 * facts, then for the results.
 */
export function divideRows<Problem extends Extents & { readonly dtype: FloatType }>(
  context: OperationContext,
  problem: Problem,
  run: Run<Problem>,
  passes: RowPasses<Problem>,
): void {
  const { outer, length, inner } = problem;
  if (outer === 1) {
    inPieces(context, problem, passes);
    return;
  }
  const middle = middleOf(outer);
  run(context, passes.pieceOf(problem, 0, { outer: middle }));
  run(context, passes.pieceOf(problem, middle * length * inner, { outer: outer - middle }));
}

function inPieces<Problem extends Extents & { readonly dtype: FloatType }>(
  context: OperationContext,
  problem: Problem,
  passes: RowPasses<Problem>,
): void {
  const { dtype, length, inner } = problem;
  // Scratch has room for the facts of two parts of each column.
  const { columns, height } = slabPieces(context.features, inner, dtypeBytes[dtype], 2 * passes.factBytes);
  for (let column = 0; column < inner; column += columns) {
    const width = Math.min(columns, inner - column);
    const pieces: Problem[] = [];
    for (let line = 0; line < length; line += height) {
      const extents = { length: Math.min(height, length - line), inner: width };
      pieces.push(passes.pieceOf(problem, line * inner + column, extents));
    }
    context.scoped((scope) => applyPieces(scope, width, pieces, passes));
  }
}

/** Pieces of the same rows: each adds its facts to those of the pieces before. */
function applyPieces<Problem extends Extents & { readonly dtype: FloatType }>(
  context: OperationContext,
  rows: number,
  pieces: readonly Problem[],
  passes: RowPasses<Problem>,
): void {
  const byteLength = passes.factBytes * rows;
  const factsAt = (region: BufferRegion, index: number): BufferRegion => ({
    ...region,
    byteOffset: region.byteOffset + index * byteLength,
    byteLength,
  });
  // Each holds the facts so far, and those of the next piece.
  let [now, next] = [context.scratch(2 * byteLength), context.scratch(2 * byteLength)];
  for (const [i, piece] of pieces.entries()) {
    const isLast = i === pieces.length - 1;
    context.scoped((scope) => {
      if (i === 0) passes.statistics(scope, piece, factsAt(now, 0), isLast);
      else {
        passes.statistics(scope, piece, factsAt(now, 1), false);
        passes.join(scope, piece, rows, now, factsAt(next, 0), isLast);
      }
    });
    if (i > 0) [now, next] = [next, now];
  }
  for (const piece of pieces) passes.apply(context, piece, factsAt(now, 0));
}
