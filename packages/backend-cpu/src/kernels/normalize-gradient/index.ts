import {
  floatTypes,
  type NormalizeGradientProblem,
  type NormalizeKind,
  normalizeKinds,
} from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { planFill } from "../memory/index.js";
import { all, type ByKind, byKind, momentsBytes, momentsOfPieces } from "../normalize/index.js";
import { blockElements, chunkElements, enoughChunks, planRows } from "../rows/index.js";
import {
  type ColumnsTypes,
  columnsKernel,
  type FactsTypes,
  factsBytes,
  factsKernel,
  type PieceTypes,
  pairBytes,
  pairsKernel,
  type RowsTypes,
  rowsKernel,
  type StatisticsSource,
  sources,
  totalKernel,
} from "./kernels.wasm.js";
import { type GradientTile, nameOf, sumsLayout } from "./sums.wasm.js";

type Problem = NormalizeGradientProblem<CpuMemory>;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.6;

/** Columns of a chunk of the last step. */
const totalColumns = 512;

type Form = Pick<GradientTile, "result" | "weight" | "sums">;

const forms: readonly Form[] = [
  ...[false, true].flatMap((weight) => [false, true].map((sums) => ({ result: true, weight, sums }))),
  { result: false, weight: false, sums: true },
];

interface Kernels {
  readonly rows: Kernel<RowsTypes>;
  readonly columns: Kernel<ColumnsTypes>;
}

const tiles: readonly GradientTile[] = normalizeKinds.flatMap((kind) =>
  floatTypes.flatMap((dtype) => forms.map((form) => ({ kind, dtype, ...form }))),
);

const gradients: ReadonlyMap<string, Kernels> = new Map(
  tiles.map((tile) => [nameOf(tile), { rows: rowsKernel(tile), columns: columnsKernel(tile) }]),
);

const facts = Object.fromEntries(normalizeKinds.map((kind) => [kind, factsKernel(kind)])) as Readonly<
  Record<NormalizeKind, Kernel<FactsTypes>>
>;

/** Without a weight, and with one. */
const pairs: ByKind<readonly [Kernel<PieceTypes>, Kernel<PieceTypes>]> = byKind((kind, dtype) => [
  pairsKernel(kind, dtype, false),
  pairsKernel(kind, dtype, true),
]);

const total = byFloatType(totalKernel);

/** How rows are divided up; a function of the problem alone, so that results always repeat. */
export interface GradientPlan {
  /** `rows`: the cache holds them, so that they are read from memory once. `pieces`: others, seen twice. */
  readonly form: "rows" | "pieces";
  readonly rowsPerChunk: number;
  readonly rowBlocks: number;
  readonly pieces: number;
  /** Elements of a piece, a multiple of 4 if there are several. */
  readonly pieceLength: number;
}

/** The least rows of a chunk that has sums of its columns: these take twice as many bytes as the elements of a row. */
const leastRows = 16;

/** The least elements of a piece. */
const leastPiece = 1 << 11;

/** `withSums`: each chunk also has sums of its columns, so that there should not be more chunks than enough. */
export function planNormalizeGradient(rows: number, size: number, withSums: boolean): GradientPlan {
  const isWhole = size <= blockElements;
  if (isWhole && !withSums) {
    const { perChunk } = planRows(rows, size);
    const rowBlocks = Math.ceil(rows / perChunk);
    return { form: "rows", rowsPerChunk: perChunk, rowBlocks, pieces: 1, pieceLength: size };
  }
  const fewest = withSums ? Math.min(leastRows, rows) : 1;
  if (isWhole) {
    const elements = Math.ceil(chunkElements.least / size);
    const rowsPerChunk = Math.max(Math.ceil(rows / enoughChunks), elements, fewest);
    const rowBlocks = Math.ceil(rows / rowsPerChunk);
    return { form: "rows", rowsPerChunk, rowBlocks, pieces: 1, pieceLength: size };
  }
  const longest = Math.ceil(size / blockElements);
  const rowsPerChunk = Math.max(Math.ceil(rows / Math.ceil(enoughChunks / longest)), fewest);
  const rowBlocks = Math.ceil(rows / rowsPerChunk);
  const wanted = 4 * Math.ceil(size / Math.ceil(enoughChunks / rowBlocks) / 4);
  const pieceLength = Math.min(Math.max(wanted, leastPiece), blockElements);
  return { form: "pieces", rowsPerChunk, rowBlocks, pieces: Math.ceil(size / pieceLength), pieceLength };
}

export const normalizeGradient: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: [
    ...[...gradients.values()].flatMap(({ rows, columns }) => [rows, columns]),
    ...all(pairs).flat(),
    ...Object.values(facts),
    ...Object.values(total),
    ...all(momentsOfPieces),
  ],

  plan(problem, context) {
    const { kind, dtype, rows, size, epsilon, input, weight, outputGradient, inputGradient } = problem;
    const wanted = [problem.weightGradient, problem.biasGradient];
    if (rows === 0) return wanted.flatMap((region) => (region === undefined ? [] : [planFill(region, 0)]));
    const result = inputGradient !== undefined;
    const sums = wanted.some((region) => region !== undefined);
    const tile = { kind, dtype, result, weight: result && weight !== undefined, sums };
    const { form, rowsPerChunk, rowBlocks, pieces, pieceLength } = planNormalizeGradient(rows, size, sums);
    const chunks = rowBlocks * pieces;
    const width = 4 * Math.ceil(pieceLength / 4);
    const sumsAt = sums ? context.workspace(sumsLayout.bytes * width * chunks) : 0;
    const source = sourceOf(problem);
    const nanoseconds = nanosecondsPerElement * rows * size;
    // The input is not looked at if nothing depends on it.
    const x = address(source === "none" ? outputGradient : input);
    const operands = {
      ...{ x, dy: address(outputGradient), dx: addressOr0(inputGradient), weight: addressOr0(weight) },
      ...{ sums: sumsAt, length: size, rows, rowsPerChunk },
    };
    const statistics = {
      ...{ mean: addressOr0(problem.mean), inverse: addressOr0(problem.inverseDeviation) },
      ...{ source: sources[source], epsilon },
    };
    const { rows: ofRows, columns: ofColumns } = gradients.get(nameOf(tile))!;
    const launches: Launch[] = [];
    if (form === "rows") launches.push(ofRows.launch({ ...operands, ...statistics }, chunks, nanoseconds));
    else {
      const everyPiece = rows * pieces;
      const places = { length: size, pieces, pieceLength };
      const moments = source === "computed" ? context.workspace(momentsBytes * everyPiece) : 0;
      const factsAt = context.workspace(factsBytes * rows);
      const pairsAt = result ? context.workspace(pairBytes * everyPiece) : 0;
      if (source === "computed")
        launches.push(
          momentsOfPieces[kind][dtype].launch(
            { input: address(input), moments, ...places },
            everyPiece,
            nanoseconds,
          ),
        );
      launches.push(facts[kind].launch({ ...statistics, ...places, moments, facts: factsAt, rows }, 1));
      const pieceOperands = { ...places, facts: factsAt, pairs: pairsAt };
      if (result) {
        const { dy, weight: factors } = operands;
        const kernel = pairs[kind][dtype][tile.weight ? 1 : 0];
        launches.push(kernel.launch({ ...pieceOperands, x, dy, weight: factors }, everyPiece, nanoseconds));
      }
      launches.push(ofColumns.launch({ ...operands, ...pieceOperands }, chunks, nanoseconds));
    }
    const perChunk = form === "rows" ? totalColumns : pieceLength;
    for (const [i, region] of wanted.entries())
      if (region !== undefined)
        launches.push(
          total[dtype].launch(
            {
              sums: sumsAt + i * sumsLayout.bias * width,
              ...{ output: address(region), size, perChunk },
              chunkBytes: form === "rows" ? 8 * totalColumns : sumsLayout.bytes * width,
              ...{ parts: rowBlocks, partBytes: sumsLayout.bytes * width * pieces },
              accumulate: problem.accumulate ? 1 : 0,
            },
            Math.ceil(size / perChunk),
            nanosecondsPerElement * rowBlocks * size,
          ),
        );
    return launches;
  },
};

function sourceOf({ inputGradient, weightGradient, inverseDeviation }: Problem): StatisticsSource {
  if (inputGradient === undefined && weightGradient === undefined) return "none";
  return inverseDeviation === undefined ? "computed" : "given";
}

function addressOr0(region: Problem["weight"]): number {
  return region === undefined ? 0 : address(region);
}
