import { type CopyProblem, type DType, dtypeBytes, dtypes, elementTypes } from "@backplane/core";
import { address, type CpuMemory, type CpuOperation, type Kernel, type Launch } from "../kernel.js";
import { planCopy } from "../memory/index.js";
import { elementsPerChunk } from "../vector/index.js";
import { convertingKernel, movingKernel, outerAxes, type RowTypes } from "./rows.wasm.js";
import { lineBytes, type TileTypes, tileOuterAxes, tilesKernel } from "./tiles.wasm.js";

type Problem = CopyProblem<CpuMemory>;

const moving = { 1: movingKernel(1), 2: movingKernel(2), 4: movingKernel(4) } as const;
const tiles = { 1: tilesKernel(1), 2: tilesKernel(2), 4: tilesKernel(4) } as const;

const converting = Object.fromEntries(
  dtypes.map((from) => [
    from,
    Object.fromEntries(dtypes.map((to) => [to, from === to ? undefined : convertingKernel(from, to)])),
  ]),
) as Readonly<Record<DType, Readonly<Record<DType, Kernel<RowTypes> | undefined>>>>;

/** One axis, with the bytes of a step. */
interface Axis {
  readonly extent: number;
  readonly from: number;
  readonly to: number;
}

/** Roughly how long an element takes one worker. */
const nanoseconds = { row: 0.3, scattered: 1 } as const;

/** Rows of fewer elements are short: a longer axis makes better ones. */
const shortRow = 16;

/** Elements of a part of a row whose lines stay in the cache until the next rows have used the rest of them. */
const partElements = 256;

/** Rows and columns of the part of a matrix that a chunk transposes; multiples of the side of every tile. */
const blockSide = 256;

/** Elements that a chunk transposes, if matrices are smaller than a part. */
const blockElements = 1 << 14;

export const copy: CpuOperation<Problem> = {
  supports: [{ dtype: dtypes, outputDtype: true }],
  kernels: [
    ...Object.values(moving),
    ...Object.values(tiles),
    ...Object.values(converting).flatMap((byType) =>
      Object.values(byType).flatMap((kernel) => (kernel === undefined ? [] : [kernel])),
    ),
  ],

  plan(problem, { workers }) {
    const { dtype, outputDtype, shape, n, inputStrides, outputStrides } = problem;
    const [size, outputSize] = [dtypeBytes[dtype], dtypeBytes[outputDtype]];
    const input = address(problem.input) + problem.inputStart * size;
    const output = address(problem.output);
    const isMove = dtype === outputDtype;
    const isRun =
      shape.length === 0 || (shape.length === 1 && inputStrides[0] === 1 && outputStrides[0] === 1);
    if (isMove && isRun) return [planCopy(output, input, n * size)];
    const axes = shape.map(
      (extent, i): Axis => ({ extent, from: inputStrides[i]! * size, to: outputStrides[i]! * outputSize }),
    );
    if (isMove) {
      const transposition = transpositionOf(axes, size);
      if (transposition !== undefined)
        return [launchTiles(tiles[elementTypes[dtype].bytes], input, output, transposition)];
    }
    const kernel = isMove ? moving[elementTypes[dtype].bytes] : converting[dtype][outputDtype]!;
    return [launchRows(kernel, input, output, rowsOf(axes, size, outputSize), n, workers)];
  },
};

/** A matrix whose columns are rows of the input, and the axes outside of it. */
interface Transposition {
  readonly rows: Axis;
  readonly columns: Axis;
  readonly outer: readonly Axis[];
}

/** Undefined: the innermost axis of the output does not change places with one of the input, or one is short. */
function transpositionOf(axes: readonly Axis[], size: number): Transposition | undefined {
  const columns = axes.at(-1)!;
  const rows = axes.findLast((axis) => axis.from === size);
  if (rows === undefined || rows === columns || columns.to !== size || columns.from === 0) return undefined;
  if (Math.min(rows.extent, columns.extent) < 16 / size) return undefined;
  return { rows, columns, outer: axes.filter((axis) => axis !== rows && axis !== columns) };
}

function launchTiles(
  kernel: Kernel<TileTypes>,
  input: number,
  output: number,
  { rows, columns, outer }: Transposition,
): Launch {
  const blockRows = Math.min(blockSide, Math.ceil(rows.extent / lineBytes) * lineBytes);
  const blockColumns = Math.min(blockSide, Math.ceil(columns.extent / lineBytes) * lineBytes);
  const blocksAcross = Math.ceil(columns.extent / blockColumns);
  const blocks = blocksAcross * Math.ceil(rows.extent / blockRows);
  const matrices = outer.reduce((product, { extent }) => product * extent, 1);
  // Small matrices share a chunk.
  const elements = Math.min(rows.extent, blockRows) * Math.min(columns.extent, blockColumns);
  const perChunk = Math.min(matrices, Math.max(1, Math.floor(blockElements / elements)));
  const parameters = [input, output, rows.extent, columns.extent, columns.from, rows.to];
  parameters.push(blockRows, blockColumns, blocksAcross, blocks, matrices, perChunk);
  pushAxes(parameters, outer, tileOuterAxes);
  return kernel.launchList(
    parameters,
    Math.ceil(matrices / perChunk) * blocks,
    nanoseconds.row * matrices * rows.extent * columns.extent,
  );
}

interface Rows {
  readonly row: Axis;
  readonly outer: readonly Axis[];
  /** Whether each row uses a little of many lines of the input, and the next row the next little. */
  readonly isScattered: boolean;
}

function rowsOf(axes: readonly Axis[], size: number, outputSize: number): Rows {
  const innermost = axes.at(-1) ?? { extent: 1, from: size, to: outputSize };
  const longest = axes.reduce((a, b) => (b.extent > a.extent ? b : a), innermost);
  const row = innermost.extent < shortRow ? longest : innermost;
  // Most small copies are of few rows.
  if (axes.length === 1) return { row, outer: [], isScattered: false };
  const others = axes.filter((axis) => axis !== row);
  const next = others.findLast((axis) => axis.from === size);
  const isScattered = next !== undefined && row.from !== size;
  return {
    row,
    outer: isScattered ? [...others.filter((axis) => axis !== next), next] : others,
    isScattered,
  };
}

function launchRows(
  kernel: Kernel<RowTypes>,
  input: number,
  output: number,
  { row, outer, isScattered }: Rows,
  n: number,
  workers: number,
): Launch {
  const rows = n / row.extent;
  const perChunk = elementsPerChunk(n, workers);
  const elements = Math.min(row.extent, isScattered ? partElements : perChunk);
  const rowsPerChunk = Math.min(rows, Math.max(1, Math.floor(perChunk / elements)));
  const chunksPerRow = Math.ceil(row.extent / elements);
  const parameters = [input, output, row.extent, row.from, row.to];
  parameters.push(rows, rowsPerChunk, elements, chunksPerRow);
  pushAxes(parameters, outer, outerAxes);
  return kernel.launchList(
    parameters,
    Math.ceil(rows / rowsPerChunk) * chunksPerRow,
    n * nanoseconds[isScattered ? "scattered" : "row"],
  );
}

/** Adds `most` axes; missing ones come first. */
function pushAxes(parameters: number[], axes: readonly Axis[], most: number): void {
  for (let axis = axes.length; axis < most; axis++) parameters.push(1, 0, 0);
  for (const { extent, from, to } of axes) parameters.push(extent, from, to);
}
