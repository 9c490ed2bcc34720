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
  type PieceTypes,
  type ResultTypes,
  type RowsTypes,
  resultsKernel,
  rowsKernel,
} from "./rows.wasm.js";

// For the gradients of this operation.
export { emitJoin, momentsFunction, noMoments } from "./moments.wasm.js";
export { emitFactors, momentsBytes, type RowFactors } from "./rows.wasm.js";

type Problem = NormalizeProblem<CpuMemory>;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.3;

interface Results {
  readonly rows: Kernel<RowsTypes>;
  readonly pieces: Kernel<ResultTypes>;
}

export type ByKind<Made> = Readonly<Record<NormalizeKind, Readonly<Record<FloatType, Made>>>>;

export function byKind<Made>(make: (kind: NormalizeKind, dtype: FloatType) => Made): ByKind<Made> {
  return Object.fromEntries(
    normalizeKinds.map((kind) => [kind, byFloatType((dtype) => make(kind, dtype))]),
  ) as ByKind<Made>;
}

/** Without factors, with a weight, with a bias, and with both. */
const results: ByKind<readonly Results[]> = byKind((kind, dtype) =>
  [0, 1, 2, 3].map((factors) => {
    const tile = { kind, dtype, weight: (factors & 1) !== 0, bias: (factors & 2) !== 0 };
    return { rows: rowsKernel(tile), pieces: resultsKernel(tile) };
  }),
);

/** Moments of the pieces of rows; see `momentsKernel`. */
export const momentsOfPieces: ByKind<Kernel<PieceTypes>> = byKind(momentsKernel);

export function all<Made>(kernels: ByKind<Made>): readonly Made[] {
  return Object.values(kernels).flatMap((byType) => Object.values(byType));
}

/** Rows that fit into the cache are read from memory once. Others leave moments of their pieces, and are read again. */
export const normalize: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: [
    ...all(results).flatMap((some) => some.flatMap(({ rows, pieces }) => [rows, pieces])),
    ...all(momentsOfPieces),
  ],

  plan(problem, context) {
    const { kind, dtype, rows, size, epsilon, weight, bias, mean, inverseDeviation } = problem;
    const { form, perChunk, pieces, pieceLength } = planRows(rows, size);
    const nanoseconds = nanosecondsPerElement * rows * size;
    const kernels = results[kind][dtype][(weight === undefined ? 0 : 1) + (bias === undefined ? 0 : 2)]!;
    const input = address(problem.input);
    const operands = {
      input,
      output: address(problem.output),
      weight: addressOr0(weight),
      bias: addressOr0(bias),
      mean: addressOr0(mean),
      inverse: addressOr0(inverseDeviation),
      stored: (mean === undefined ? 0 : 1) + (inverseDeviation === undefined ? 0 : 2),
      length: size,
      epsilon,
      rows,
      rowsPerChunk: perChunk,
    };
    if (form === "whole") {
      return [kernels.rows.launch(operands, Math.ceil(rows / perChunk), nanoseconds)];
    }
    const chunks = rows * pieces;
    const places = { moments: context.workspace(momentsBytes * chunks), pieces, pieceLength };
    return [
      momentsOfPieces[kind][dtype].launch({ input, length: size, ...places }, chunks, nanoseconds),
      kernels.pieces.launch({ ...operands, ...places }, chunks, nanoseconds),
    ];
  },
};

function addressOr0(region: Problem["weight"]): number {
  return region === undefined ? 0 : address(region);
}
