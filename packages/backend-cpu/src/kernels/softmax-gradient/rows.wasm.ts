import type { FloatType, SoftmaxKind } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  f32,
  f32x4,
  f64,
  i32,
  type Local,
  type Value,
} from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { rowPiece } from "../rows/index.js";
import { mapVectors } from "../vector/index.js";
import {
  operandTypes,
  type Parameters,
  placesAt,
  resultsAndSumFunction,
  resultsOf,
  sumFunction,
} from "./sums.wasm.js";

type Places = readonly [y: Local<"i32">, dy: Local<"i32">, dx: Local<"i32">];

/** Results of `count` elements from the sum of their row. */
function emitResults(
  f: FunctionBuilder,
  kind: SoftmaxKind,
  dtype: FloatType,
  [y, dy, dx]: Places,
  count: Local<"i32">,
  sum: Value<"f64">,
): void {
  const elements = elementsOf(f, dtype);
  const results = resultsOf(f, kind);
  const stream = (at: Local<"i32">) => ({ at: f.let(at), elements });
  mapVectors(f, {
    count,
    inputs: [stream(y), stream(dy), f.let(f32x4.splat(f32.demoteF64(sum)))],
    output: stream(dx),
    compute: (a, b, total) => results(a!, b!, total!),
    unroll: kind === "softmax" && !elementFormats[dtype].converted ? 4 : 1,
  });
}

export type RowsTypes = Parameters<keyof typeof operandTypes | "rows" | "length" | "rowsPerChunk">;

/**
 * Elements from which on rows of softmax in f32 are 1.1 to 1.25 times as fast if the sum of the next row is found while results are
 * computed. Of 256 and 512 they lose 10% by it, and in f16, where converting is most of it, nothing is gained.
 */
const longRow = 1024;

/** Whole rows that fit into the cache, one after the other. */
export function rowsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowsTypes> {
  return defineKernel({
    name: `softmax_gradient_${kind}_rows_${dtype}`,
    parameters: { ...operandTypes, rows: "i32", length: "i32", rowsPerChunk: "i32" },
    emit(f, { parameters, chunk, module }) {
      const { rows, length, rowsPerChunk } = parameters;
      const sumOf = sumFunction(module, kind, dtype);
      const row = f.let(i32.mul(chunk, rowsPerChunk));
      const end = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const rowBytes = f.let(i32.shl(length, elementFormats[dtype].shift));
      const places = placesAt(f, parameters, i32.mul(row, rowBytes));
      const [y, dy, dx] = places;
      const each = () =>
        f.forLocal(row, end, () => {
          emitResults(f, kind, dtype, places, length, callValue("f64", sumOf, y, dy, length));
          for (const place of places) f.add(place, rowBytes);
        });
      if (kind === "logSoftmax" || elementFormats[dtype].converted) {
        each();
        return;
      }
      const both = resultsAndSumFunction(module, dtype);
      const withNext = () => {
        const sum = f.let(callValue("f64", sumOf, y, dy, length));
        f.forLocal(f.let(i32.add(row, 1)), end, () => {
          const next = [y, dy].map((place) => i32.add(place, rowBytes)) as [Value<"i32">, Value<"i32">];
          f.set(sum, callValue("f64", both, y, dy, dx, ...next, length, sum));
          for (const place of places) f.add(place, rowBytes);
        });
        emitResults(f, kind, dtype, places, length, sum);
      };
      f.if(i32.geU(length, longRow), withNext, each);
    },
  });
}

/** A row in `pieces` pieces of `pieceLength` elements; a chunk is one of them. */
export type RowPieceTypes = Parameters<
  keyof typeof operandTypes | "sums" | "length" | "pieces" | "pieceLength"
>;

const rowPieceTypes: RowPieceTypes = {
  ...{ ...operandTypes, sums: "i32" },
  ...{ length: "i32", pieces: "i32", pieceLength: "i32" },
};

/** sums[row, piece], in f64 */
export function rowSumsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowPieceTypes> {
  return defineKernel({
    name: `softmax_gradient_${kind}_row_sums_${dtype}`,
    parameters: rowPieceTypes,
    emit(f, { parameters, chunk, module }) {
      const { offset, count } = rowPiece(f, parameters, chunk, dtype);
      const [y, dy] = placesAt(f, parameters, offset);
      const sum = callValue("f64", sumFunction(module, kind, dtype), y, dy, count);
      f.store(i32.add(parameters.sums, i32.shl(chunk, 3)), sum);
    },
  });
}

/** Results of each piece, from the sums of all pieces of its row. */
export function rowResultsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowPieceTypes> {
  return defineKernel({
    name: `softmax_gradient_${kind}_row_results_${dtype}`,
    parameters: rowPieceTypes,
    emit(f, { parameters, chunk }) {
      const { row, offset, count } = rowPiece(f, parameters, chunk, dtype);
      const bytes = f.let(i32.shl(parameters.pieces, 3));
      const first = f.let(i32.add(parameters.sums, i32.mul(row, bytes)));
      const end = f.let(i32.add(first, bytes));
      const sum = f.let(f64.const(0));
      f.forRange(first, end, (at) => f.set(sum, f64.add(sum, f64.load(at))), { step: 8 });
      emitResults(f, kind, dtype, placesAt(f, parameters, offset), count, sum);
    },
  });
}
