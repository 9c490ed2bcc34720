import {
  type FloatType,
  floatTypes,
  type NormalizeKind,
  type NormalizeProblem,
  normalizeKinds,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { planRows } from "../rows/index.js";
import {
  momentsBytes,
  momentsKernel,
  type NormalizeTile,
  nameOf,
  type PieceTypes,
  type ResultTypes,
  type RowsTypes,
  resultsKernel,
  rowsKernel,
} from "./rows.wasm.js";

type Problem = NormalizeProblem<CpuMemory>;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.3;

const tiles: readonly NormalizeTile[] = normalizeKinds.flatMap((kind) =>
  floatTypes.flatMap((dtype) =>
    [false, true].flatMap((weight) => [false, true].map((bias) => ({ kind, dtype, weight, bias }))),
  ),
);

interface Results {
  readonly rows: Kernel<RowsTypes>;
  readonly pieces: Kernel<ResultTypes>;
}

const results: ReadonlyMap<string, Results> = new Map(
  tiles.map((tile) => [nameOf(tile), { rows: rowsKernel(tile), pieces: resultsKernel(tile) }]),
);

const moments = Object.fromEntries(
  normalizeKinds.map((kind) => [kind, byFloatType((dtype) => momentsKernel(kind, dtype))]),
) as Readonly<Record<NormalizeKind, Readonly<Record<FloatType, Kernel<PieceTypes>>>>>;

/** Rows that fit into the cache are read from memory once. Others leave moments of their pieces, and are read again. */
export const normalize: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: [
    ...[...results.values()].flatMap(({ rows, pieces }) => [rows, pieces]),
    ...Object.values(moments).flatMap((byType) => Object.values(byType)),
  ],

  plan(problem, context) {
    const { kind, dtype, rows, size, epsilon, weight, bias, mean, inverseDeviation } = problem;
    const { form, perChunk, pieces, pieceLength } = planRows(rows, size);
    const nanoseconds = nanosecondsPerElement * rows * size;
    const name = nameOf({ kind, dtype, weight: weight !== undefined, bias: bias !== undefined });
    const kernels = results.get(name)!;
    const input = address(problem.input);
    const operands = {
      ...{ input, output: address(problem.output), length: size, epsilon },
      weight: weight === undefined ? 0 : address(weight),
      bias: bias === undefined ? 0 : address(bias),
      mean: mean === undefined ? 0 : address(mean),
      inverse: inverseDeviation === undefined ? 0 : address(inverseDeviation),
      stored: (mean === undefined ? 0 : 1) + (inverseDeviation === undefined ? 0 : 2),
    };
    if (form === "whole") {
      const parameters = { ...operands, rows, rowsPerChunk: perChunk };
      return [kernels.rows.launch(parameters, Math.ceil(rows / perChunk), nanoseconds)];
    }
    const chunks = rows * pieces;
    const places = { moments: context.workspace(momentsBytes * chunks), pieces, pieceLength };
    return [
      moments[kind][dtype].launch({ input, length: size, ...places }, chunks, nanoseconds),
      kernels.pieces.launch({ ...operands, ...places }, chunks, nanoseconds),
    ];
  },
};
