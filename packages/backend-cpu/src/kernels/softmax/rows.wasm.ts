import type { FloatType, SoftmaxKind } from "@backplane/core";
import { callValue, f32x4, f64, i32, type Local, select, type Value, v128 } from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { blockElements, rowPiece } from "../rows/index.js";
import { mapVectors } from "../vector/index.js";
import {
  areNormal,
  emitResults,
  extremesBytes,
  extremesFunction,
  largestFunction,
  lastOf,
  lowest,
  type Parameters,
  quickSumFunction,
  referenceOf,
  rowPairBytes,
  sumFunction,
  weightFunction,
} from "./weights.wasm.js";

export type RowsTypes = Parameters<
  "input" | "output" | "weights" | "weightsBytes" | "rows" | "length" | "rowsPerChunk"
>;

/**
 * Whole rows that fit into the cache, one after the other. Weights wait for their sum in the output, or, if it
 * would round them, in `weightsBytes` for each worker.
 */
export function rowsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowsTypes> {
  return defineKernel({
    name: `${kind}_rows_${dtype}`,
    parameters: {
      ...{ input: "i32", output: "i32", weights: "i32", weightsBytes: "i32" },
      ...{ rows: "i32", length: "i32", rowsPerChunk: "i32" },
    },
    scratchBytes: extremesBytes,
    emit(f, { parameters, chunk, worker, scratch, module }) {
      const { input, output, weights, weightsBytes, rows, length, rowsPerChunk } = parameters;
      const elements = elementsOf(f, dtype);
      const single = elementsOf(f, "f32");
      const { shift, converted } = elementFormats[dtype];
      const extremesOf = extremesFunction(module, dtype);
      const stored = kind === "softmax";
      const sumOf = sumFunction(module, dtype, stored);
      const quickSumOf = quickSumFunction(module, dtype, stored);
      const own = f.let(i32.add(weights, i32.mul(worker, weightsBytes)));
      const row = f.let(i32.mul(chunk, rowsPerChunk));
      const end = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const rowBytes = f.let(i32.shl(length, shift));
      const at = f.let(i32.add(input, i32.mul(row, rowBytes)));
      const to = f.let(i32.add(output, i32.mul(row, rowBytes)));
      const place = stored && !converted ? to : own;
      const next = f.local("i32");
      const sum = f.local("f64");
      f.call(extremesOf, at, length, scratch);
      f.forLocal(row, end, () => {
        const largest = f.let(v128.load(scratch));
        const isLast = i32.eq(i32.add(row, 1), end);
        f.set(next, i32.add(at, select(i32.const(0), rowBytes, isLast)));
        f.if(
          areNormal(largest, v128.load(scratch, 16)),
          () => f.set(sum, callValue("f64", quickSumOf, at, length, largest, place, next, scratch)),
          () => {
            f.set(sum, callValue("f64", sumOf, at, length, largest, place));
            f.call(extremesOf, next, length, scratch);
          },
        );
        const last = lastOf(f, kind, sum);
        if (stored)
          mapVectors(f, {
            count: length,
            inputs: [{ at: f.let(place), elements: single }, last],
            output: { at: f.let(to), elements },
            compute: (weight, factor) => f32x4.mul(weight!, factor!),
            unroll: 4,
          });
        else emitResults(f, kind, elements, { at, to, count: length }, [largest, last]);
        f.add(at, rowBytes);
        f.add(to, rowBytes);
      });
    },
  });
}

/** A row in `pieces` pieces of `pieceLength` elements; a chunk is one of them. */
export type RowPieceTypes = Parameters<"input" | "output" | "pairs" | "length" | "pieces" | "pieceLength">;

const rowPieceTypes: RowPieceTypes = {
  ...{ input: "i32", output: "i32", pairs: "i32" },
  ...{ length: "i32", pieces: "i32", pieceLength: "i32" },
};

/** pairs[row, piece] = (S, m) */
export function rowPairsKernel(dtype: FloatType): Kernel<RowPieceTypes> {
  return defineKernel({
    name: `softmax_row_pairs_${dtype}`,
    parameters: rowPieceTypes,
    emit(f, { parameters, chunk, module }) {
      const largestOf = largestFunction(module, dtype);
      const sumOf = sumFunction(module, dtype, false);
      const weightOf = weightFunction(module);
      const reference = referenceOf(f);
      const { offset, count } = rowPiece(f, parameters, chunk, dtype);
      const at = f.let(i32.add(parameters.input, offset));
      const largest = f.let(f32x4.const(lowest));
      const sum = f.let(f64.const(0));
      const block = f.local("i32");
      f.while(i32.gtS(count, 0), () => {
        f.set(block, i32.minS(count, blockElements));
        const next = f.let(f32x4.pmax(largest, callValue("v128", largestOf, at, block)));
        const common = reference(next);
        const before = f64.mul(sum, callValue("f64", weightOf, f32x4.sub(largest, common)));
        f.set(sum, f64.add(before, callValue("f64", sumOf, at, block, common, 0)));
        f.set(largest, next);
        f.add(at, i32.shl(block, elementFormats[dtype].shift));
        f.set(count, i32.sub(count, block));
      });
      const pair = f.let(i32.add(parameters.pairs, i32.mul(chunk, rowPairBytes)));
      f.store(pair, sum);
      f.storeLane(32, 0, pair, largest, 8);
    },
  });
}

/** Results of each piece, from the pairs of all pieces of its row. */
export function rowResultsKernel(kind: SoftmaxKind, dtype: FloatType): Kernel<RowPieceTypes> {
  return defineKernel({
    name: `${kind}_row_results_${dtype}`,
    parameters: rowPieceTypes,
    emit(f, { parameters, chunk, module }) {
      const { input, output, pairs, pieces } = parameters;
      const weightOf = weightFunction(module);
      const { row, offset, count } = rowPiece(f, parameters, chunk, dtype);
      const bytes = f.let(i32.mul(pieces, rowPairBytes));
      const first = f.let(i32.add(pairs, i32.mul(row, bytes)));
      const end = f.let(i32.add(first, bytes));
      const largest = f.let(f32x4.const(lowest));
      const sum = f.let(f64.const(0));
      const step = { step: rowPairBytes };
      f.forRange(first, end, (pair) => f.set(largest, f32x4.pmax(largest, v128.load32Splat(pair, 8))), step);
      const shareOf = (pair: Local<"i32">): Value<"f64"> =>
        f64.mul(f64.load(pair), callValue("f64", weightOf, f32x4.sub(v128.load32Splat(pair, 8), largest)));
      f.forRange(first, end, (pair) => f.set(sum, f64.add(sum, shareOf(pair))), step);
      const at = f.let(i32.add(input, offset));
      const to = f.let(i32.add(output, offset));
      const last = lastOf(f, kind, sum);
      emitResults(f, kind, elementsOf(f, dtype), { at, to, count }, [largest, last]);
    },
  });
}

// Columns: another axis. A slab has `length` lines of `inner` elements, and a panel some columns of them.
