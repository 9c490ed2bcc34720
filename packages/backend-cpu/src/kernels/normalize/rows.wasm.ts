import type { FloatType, NormalizeKind } from "@backplane/core";
import {
  callValue,
  type FunctionBuilder,
  f32,
  f32x4,
  f64,
  f64x2,
  i32,
  type Local,
  type Value,
  v128,
} from "../../wasm/index.js";
import { elementFormats, elementsOf } from "../elements/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { rowPiece } from "../rows/index.js";
import { mapVectors, type Stream } from "../vector/index.js";
import { emitJoin, momentsFunction, noMoments } from "./moments.wasm.js";

/** What a kernel of results is made for; everything else is a parameter. */
export interface NormalizeTile {
  readonly kind: NormalizeKind;
  readonly dtype: FloatType;
  readonly weight: boolean;
  readonly bias: boolean;
}

function nameOf({ kind, dtype, weight, bias }: NormalizeTile): string {
  return `${kind}_${dtype}${weight ? "_weight" : ""}${bias ? "_bias" : ""}`;
}

type Words<Names extends string> = Readonly<Record<Names, "i32">>;

/** Addresses, and which statistics to store: 1 for the mean, 2 for the inverse deviation. */
type OperandTypes = Words<
  "input" | "weight" | "bias" | "output" | "mean" | "inverse" | "stored" | "length"
> & {
  readonly epsilon: "f32";
};

const operandTypes: OperandTypes = {
  ...{ input: "i32", weight: "i32", bias: "i32", output: "i32", mean: "i32", inverse: "i32" },
  ...{ stored: "i32", length: "i32", epsilon: "f32" },
};

export type Operands = Readonly<Record<Exclude<keyof OperandTypes, "epsilon">, Local<"i32">>> & {
  readonly epsilon: Local<"f32">;
};

/** In all lanes. */
export interface RowFactors {
  readonly mean: Local<"v128">;
  readonly inverse: Local<"v128">;
}

/** 1 / sqrt(V / n + epsilon), and the mean, in f32. */
export function emitFactors(
  f: FunctionBuilder,
  { length, epsilon }: Pick<Operands, "length" | "epsilon">,
  mean: Value<"f64">,
  variation: Value<"f64">,
): RowFactors {
  const sum = f64.add(f64.div(variation, f64.convertI32S(length)), f64.promoteF32(epsilon));
  return {
    mean: f.let(f32x4.splat(f32.demoteF64(mean))),
    inverse: f.let(f32x4.splat(f32.demoteF64(f64.div(f64.const(1), f64.sqrt(sum))))),
  };
}

function emitStatistics(
  f: FunctionBuilder,
  { mean, inverse, stored }: Operands,
  row: Local<"i32">,
  factors: RowFactors,
): void {
  const place = (of: Local<"i32">) => i32.add(of, i32.shl(row, 2));
  f.if(i32.and(stored, 1), () => f.storeLane(32, 0, place(mean), factors.mean));
  f.if(i32.and(stored, 2), () => f.storeLane(32, 0, place(inverse), factors.inverse));
}

/** Results of `count` elements at byte `offset` of the operands, `begin` elements after the start of their row. */
function emitResults(
  f: FunctionBuilder,
  { kind, dtype, weight, bias }: NormalizeTile,
  operands: Operands,
  { offset, begin, count }: Readonly<Record<"offset" | "begin" | "count", Value<"i32">>>,
  { mean, inverse }: RowFactors,
): void {
  const elements = elementsOf(f, dtype);
  const stream = (at: Value<"i32">): Stream => ({ at: f.let(at), elements });
  const column = f.let(i32.shl(begin, elements.shift));
  const columns = [...(weight ? [operands.weight] : []), ...(bias ? [operands.bias] : [])];
  mapVectors(f, {
    count,
    inputs: [stream(i32.add(operands.input, offset)), ...columns.map((at) => stream(i32.add(at, column)))],
    output: stream(i32.add(operands.output, offset)),
    compute: (x, first, second) => {
      const difference = kind === "layer" ? f32x4.sub(x!, mean) : x!;
      const scaled = f32x4.mul(difference, inverse);
      if (weight && bias) return f.multiplyAdd(scaled, first!, second!);
      if (weight) return f32x4.mul(scaled, first!);
      return bias ? f32x4.add(scaled, first!) : scaled;
    },
    unroll: elementFormats[dtype].converted ? 1 : 4,
  });
}

export type RowsTypes = OperandTypes & Words<"rows" | "rowsPerChunk">;

/** Whole rows that fit into the cache, one after the other. */
export function rowsKernel(tile: NormalizeTile): Kernel<RowsTypes> {
  const { kind, dtype } = tile;
  return defineKernel({
    name: `normalize_rows_${nameOf(tile)}`,
    parameters: { ...operandTypes, rows: "i32", rowsPerChunk: "i32" },
    emit(f, { parameters, chunk, module }) {
      const { input, length, rows, rowsPerChunk } = parameters;
      const momentsOf = momentsFunction(module, kind, dtype);
      const row = f.let(i32.mul(chunk, rowsPerChunk));
      const end = f.let(i32.add(row, i32.minU(i32.sub(rows, row), rowsPerChunk)));
      const rowBytes = f.let(i32.shl(length, elementFormats[dtype].shift));
      const offset = f.let(i32.mul(row, rowBytes));
      const begin = f.let(i32.const(0));
      f.forLocal(row, end, () => {
        const moments = f.let(callValue("v128", momentsOf, i32.add(input, offset), length));
        const [mean, variation] = [f64x2.extractLane(0, moments), f64x2.extractLane(1, moments)];
        const factors = emitFactors(f, parameters, mean, variation);
        emitStatistics(f, parameters, row, factors);
        emitResults(f, tile, parameters, { offset, begin, count: length }, factors);
        f.add(offset, rowBytes);
      });
    },
  });
}

/** Bytes of the moments of a piece. */
export const momentsBytes = 16;

export type PieceTypes = Words<"input" | "moments" | "length" | "pieces" | "pieceLength">;

/** moments[row, piece], for rows in `pieces` pieces of `pieceLength` elements; a chunk is one of them. */
export function momentsKernel(kind: NormalizeKind, dtype: FloatType): Kernel<PieceTypes> {
  return defineKernel({
    name: `normalize_moments_${kind}_${dtype}`,
    parameters: { input: "i32", moments: "i32", length: "i32", pieces: "i32", pieceLength: "i32" },
    emit(f, { parameters, chunk, module }) {
      const { offset, count } = rowPiece(f, parameters, chunk, dtype);
      const momentsOf = momentsFunction(module, kind, dtype);
      const at = i32.add(parameters.input, offset);
      f.store(
        i32.add(parameters.moments, i32.mul(chunk, momentsBytes)),
        callValue("v128", momentsOf, at, count),
      );
    },
  });
}

export type ResultTypes = OperandTypes & Words<"moments" | "pieces" | "pieceLength">;

/** Results of each piece, from the moments of all pieces of its row. */
export function resultsKernel(tile: NormalizeTile): Kernel<ResultTypes> {
  return defineKernel({
    name: `normalize_results_${nameOf(tile)}`,
    parameters: { ...operandTypes, moments: "i32", pieces: "i32", pieceLength: "i32" },
    emit(f, { parameters, chunk }) {
      const { length, pieces, pieceLength } = parameters;
      const { row, piece, begin, offset, count } = rowPiece(f, parameters, chunk, tile.dtype);
      const joined = noMoments(f);
      const at = f.let(i32.add(parameters.moments, i32.mul(i32.mul(row, pieces), momentsBytes)));
      const left = f.let(length);
      f.while(i32.gtS(left, 0), () => {
        const elements = f64.convertI32S(i32.minS(left, pieceLength));
        emitJoin(f, joined, f.let(v128.load(at)), elements);
        f.add(at, momentsBytes);
        f.set(left, i32.sub(left, pieceLength));
      });
      const factors = emitFactors(f, parameters, joined.mean, joined.variation);
      f.if(i32.eqz(piece), () => emitStatistics(f, parameters, row, factors));
      emitResults(f, tile, parameters, { offset, begin, count }, factors);
    },
  });
}
