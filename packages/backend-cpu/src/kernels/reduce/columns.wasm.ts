import type { ReducedType, ReduceKind } from "@backplane/core";
import {
  type FunctionReference,
  i32,
  type Local,
  type ModuleBuilder,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementsOf } from "../elements/index.js";
import { accumulationIn, accumulatorOf, tree } from "./accumulate.js";
import { farStreams, loadAccumulator, storeAccumulator } from "./rows.wasm.js";

/** Columns of a panel if rows are wider than `streamedColumns` or not equally far apart. */
export const panelColumns = 1024;

/** Parts of the rows that are read side by side. */
const columnStreams = 4;
/** Vectors of a row that a round takes. */
const roundVectors = 2;
/** Rows of each part that are combined before they are folded, if the kind allows that. */
const combinedRows = 3;
/** From this many rows per part on, one row less costs nothing. */
const leastUneven = 16;
/** Rows that are read and combined at once. */
export const columnRound: number = columnStreams * combinedRows;

/** Rows of at most this many columns are one panel, whose accumulators stay in the first-level cache. */
export function streamedColumns(kind: ReduceKind, dtype: ReducedType): number {
  return accumulatorOf(kind, dtype).combine === undefined ? panelColumns : 4 * panelColumns;
}

/** Scratch bytes for the accumulators of a panel and for combined rows. */
export function columnScratchBytes(kind: ReduceKind, dtype: ReducedType): number {
  const { combine, empty } = accumulatorOf(kind, dtype);
  return (streamedColumns(kind, dtype) / 4) * 16 * (empty.length + (combine === undefined ? 0 : 1));
}

/**
 * Folds rows, equally far apart, into an accumulator for each four columns:
 *
 *   at             the first row
 *   rowBytes       from row to row
 *   rows           how many
 *   accumulators   where they are, and `end` where they end: an even number of them
 *
 * Vectors are read up to the end of the accumulators: up to seven elements past the end of a row.
 *
 * Parts of the rows are read side by side, each straight on from row to row. Sums of 256, 1024 and 4096
 * columns from memory reach 30, 26 and 23 GB/s on Zen 4, instead of 9, 20 and 19 with eight neighbouring rows
 * at a time. Wide rows move more bytes of accumulators, which is why some rows are combined first.
 */
export function foldColumnsFunction(
  module: ModuleBuilder,
  kind: ReduceKind,
  dtype: ReducedType,
): FunctionReference {
  const { combine, empty } = accumulatorOf(kind, dtype);
  const width = empty.length;
  const accumulatorBytes = 16 * width;
  return module.shared(`reduce_fold_columns_${kind}_${dtype}`, (label) =>
    module.function(
      label,
      { at: "i32", rowBytes: "i32", rows: "i32", accumulators: "i32", end: "i32" },
      (f, { at, rowBytes, rows, accumulators, end }) => {
        const { fold } = accumulationIn(f, kind, dtype);
        const elements = elementsOf(f, dtype);
        const vectorBytes = 4 * elements.bytes;
        const each = f.let(i32.divU(rows, columnStreams));
        // An odd number: streams that are a power of two apart get into each other's way.
        f.if(i32.geU(each, leastUneven), () => f.set(each, i32.or(i32.sub(each, 1), 1)));
        const streams = farStreams(f, at, i32.mul(each, rowBytes), columnStreams);
        const vectors = i32.divU(i32.sub(end, accumulators), accumulatorBytes);
        const rest = f.let(i32.sub(rowBytes, i32.mul(vectors, vectorBytes)));
        f.set(rows, i32.sub(rows, i32.mul(each, columnStreams)));
        const to = f.local("i32");
        const combined = f.local("i32");

        /** Goes along one row of each of some streams. */
        const alongRows = (
          from: readonly Local<"i32">[],
          take: (xs: readonly Value<"v128">[], vector: number) => void,
        ): void => {
          f.set(to, accumulators);
          f.set(combined, end);
          f.while(i32.ltU(to, end), () => {
            for (let vector = 0; vector < roundVectors; vector++)
              take(
                from.map((stream) => f.let(elements.load(stream, vectorBytes * vector))),
                vector,
              );
            for (const stream of from) f.add(stream, vectorBytes * roundVectors);
            f.add(to, accumulatorBytes * roundVectors);
            f.add(combined, 16 * roundVectors);
          });
          for (const stream of from) f.add(stream, rest);
        };
        const foldInto = (xs: readonly Value<"v128">[], vector: number): void => {
          const offset = accumulatorBytes * vector;
          storeAccumulator(f, to, fold(loadAccumulator(f, to, width, offset), xs), offset);
        };

        if (combine !== undefined)
          f.while(i32.geU(each, combinedRows), () => {
            for (let row = 0; row < combinedRows; row++)
              alongRows(streams, (xs, vector) => {
                const before = row === 0 ? [] : [f.let(v128.load(combined, 16 * vector))];
                const sum = f.let([...before, tree(xs, combine)].reduce(combine));
                if (row === combinedRows - 1) foldInto([sum], vector);
                else f.store(combined, sum, 16 * vector);
              });
            f.set(each, i32.sub(each, combinedRows));
          });
        f.forRange(0, each, () => alongRows(streams, foldInto));
        // The rest lies after the last part.
        f.forRange(0, rows, () => alongRows(streams.slice(-1), foldInto));
      },
    ),
  );
}
