import { dtypeBytes, float32ToBits, type GemmProblem } from "@backplane/core";
import { type EpilogueParameters, noEpilogue } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { packNanoseconds } from "../panels/index.js";
import { evenParts } from "../vector/index.js";
import { type FinishKernel, finishKernels } from "./finish.js";
import type { GemmKernels } from "./gemm.wasm.js";
import { type Lines, linesOfA, linesOfB } from "./lines.js";
import type { Tile } from "./tile.js";
import { blocking, productNanoseconds } from "./variants.js";

/** One block of C, or the same block of several C of a batch. */
interface Block {
  readonly firstMatrix: number;
  readonly matrices: number;
  readonly row: number;
  readonly rows: number;
  readonly column: number;
  readonly columns: number;
}

/** The workspace of a plan: panels of B, room for panels of A and, unless C is f32, sums of one block. */
interface Room {
  readonly blockRows: number;
  readonly blockColumns: number;
  /** Matrices of a batch that are handled together. */
  readonly group: number;
  readonly bPanels: number;
  /** Bytes from matrix to matrix. */
  readonly bPanelsBatch: number;
  readonly sums: number;
  readonly sumsBatch: number;
  /** For panels of A, of worker 0; bytes from worker to worker. */
  readonly rooms: number;
  readonly roomBytes: number;
}

/** How a block of C is divided into chunks, see `multiplyTypes`. */
interface Division {
  readonly chunkRows: number;
  readonly chunkColumns: number;
  readonly rowChunks: number;
  readonly columnChunks: number;
  readonly earlyChunks: number;
  readonly lateRows: number;
}

/** Plans the blocks of C one after the other, each in stretches of k: pack B, multiply, pack B, ... */
export class BlockPlanner {
  readonly #problem: GemmProblem<CpuMemory>;
  readonly #kernels: GemmKernels;
  readonly #tile: Tile;
  readonly #workers: number;
  readonly #a: Lines;
  readonly #b: Lines;
  readonly #room: Room;
  readonly #epilogue: EpilogueParameters;

  constructor(
    problem: GemmProblem<CpuMemory>,
    kernels: GemmKernels,
    tile: Tile,
    context: PlanContext,
    epilogue: EpilogueParameters,
  ) {
    this.#epilogue = epilogue;
    this.#problem = problem;
    this.#kernels = kernels;
    this.#tile = tile;
    this.#workers = context.workers;
    this.#a = linesOfA(problem);
    this.#b = linesOfB(problem);
    this.#room = takeRoom(problem, tile, context);
  }

  plan(): readonly Launch[] {
    const { k, dtype } = this.#problem;
    const finish = finishKernels[dtype];
    const launches: Launch[] = [];
    for (const block of blocks(this.#problem, this.#room)) {
      for (let p = 0; p < k; p += blocking.k) {
        const depth = Math.min(blocking.k, k - p);
        launches.push(this.#pack(block, p, depth), this.#multiply(block, p, depth));
      }
      if (finish !== undefined) launches.push(this.#finish(block, finish));
    }
    return launches;
  }

  #pack({ firstMatrix, matrices, column, columns }: Block, p: number, depth: number): Launch {
    const b = this.#b;
    const { bPanels, bPanelsBatch } = this.#room;
    const matrixChunks = Math.ceil(columns / (blocking.packPanels * this.#tile.columns));
    const copies = this.#problem.strideB === 0 ? 1 : matrices;
    const parameters = {
      k: depth,
      matrixChunks,
      source: b.address + firstMatrix * b.batch + column * b.lineStep + p * b.kStep,
      stride: b.stride,
      batch: b.batch,
      alongK: b.alongK,
      lines: columns,
      panels: bPanels,
      panelsBatch: bPanelsBatch,
      even: 0,
    };
    const elements = columns * copies * depth;
    return this.#kernels.packB.launch(parameters, matrixChunks * copies, elements * packNanoseconds);
  }

  #multiply(block: Block, p: number, depth: number): Launch {
    const { firstMatrix, matrices, row, rows, columns } = block;
    const { dtype, k, strideB, strideC, ldc, alpha, beta } = this.#problem;
    const room = this.#room;
    const a = this.#a;
    const direct = finishKernels[dtype] === undefined;
    const firstBeta = direct ? beta : 0;
    const division = divide(block, this.#workers, this.#tile);
    const parameters = {
      a: a.address + firstMatrix * a.batch + row * a.lineStep + p * a.kStep,
      aStride: a.stride,
      aBatch: a.batch,
      aAlongK: a.alongK,
      aLineStep: a.lineStep,
      b: room.bPanels,
      bBatch: strideB === 0 ? 0 : room.bPanelsBatch,
      m: rows,
      n: columns,
      k: depth,
      c: direct ? this.#cAddress(block) : room.sums,
      cBatch: direct ? strideC * dtypeBytes[dtype] : room.sumsBatch,
      stride: direct ? ldc * dtypeBytes[dtype] : 4 * room.blockColumns,
      alpha: float32ToBits(direct ? alpha : 1),
      beta: float32ToBits(p === 0 ? firstBeta : 1),
      ...division,
      rooms: room.rooms,
      roomBytes: room.roomBytes,
      // C is finished, and still in the cache, after the last stretch of k.
      ...(direct && p + depth === k ? this.#epilogueOf(block) : noEpilogue),
    };
    return this.#kernels.multiply.launch(
      parameters,
      division.rowChunks * division.columnChunks * matrices,
      matrices * rows * columns * depth * productNanoseconds,
    );
  }

  #finish(block: Block, kernel: FinishKernel): Launch {
    const { matrices, rows, columns } = block;
    const { dtype, strideC, ldc, alpha, beta } = this.#problem;
    const { sums, sumsBatch, blockColumns } = this.#room;
    const chunkRows = Math.max(1, Math.ceil((1 << 14) / columns));
    const rowChunks = Math.ceil(rows / chunkRows);
    const parameters = {
      sums,
      sumsStride: 4 * blockColumns,
      sumsBatch,
      m: rows,
      n: columns,
      c: this.#cAddress(block),
      stride: ldc * dtypeBytes[dtype],
      cBatch: strideC * dtypeBytes[dtype],
      alpha,
      beta,
      chunkRows,
      rowChunks,
      ...this.#epilogueOf(block),
    };
    return kernel.launch(parameters, rowChunks * matrices);
  }

  #epilogueOf({ column }: Block): EpilogueParameters {
    const { bias, biasStep, activation } = this.#epilogue;
    return { bias: bias === 0 ? 0 : bias + column * biasStep, biasStep, activation };
  }

  #cAddress({ firstMatrix, row, column }: Block): number {
    const { c, dtype, strideC, ldc } = this.#problem;
    return address(c) + (firstMatrix * strideC + row * ldc + column) * dtypeBytes[dtype];
  }
}

/**
 * Divides a block of C into chunks of some rows and all columns. If the rows are too few to give each worker
 * four chunks, divides columns too; rows of A are then packed once for each part. The last chunks are small,
 * so that workers finish together; in a batch only those left over in each matrix are.
 */
function divide({ rows, columns, matrices }: Block, workers: number, tile: Tile): Division {
  if (workers === 1) {
    const chunkRows = evenParts(rows, blocking.chunkTiles * tile.rows, tile.rows);
    const rowChunks = Math.ceil(rows / chunkRows);
    return {
      chunkRows,
      chunkColumns: columns,
      rowChunks,
      columnChunks: 1,
      earlyChunks: rowChunks,
      lateRows: 0,
    };
  }
  const lateRows = blocking.lateTiles * tile.rows;
  const share = Math.floor((rows * matrices) / (4 * workers * tile.rows)) * tile.rows;
  const chunkRows = Math.max(lateRows, Math.min(blocking.chunkTiles * tile.rows, share));
  const rounds = Math.max(0, Math.floor(rows / (chunkRows * workers)) - 1);
  const earlyChunks = matrices > 1 ? Math.floor(rows / chunkRows) : rounds * workers;
  const rowChunks = earlyChunks + Math.ceil((rows - earlyChunks * chunkRows) / lateRows);
  const parts = Math.ceil((4 * workers) / (rowChunks * matrices));
  const most = Math.max(blocking.leastColumns, Math.ceil(columns / parts));
  const chunkColumns = evenParts(columns, most, tile.columns);
  const columnChunks = Math.ceil(columns / chunkColumns);
  return { chunkRows, chunkColumns, rowChunks, columnChunks, earlyChunks, lateRows };
}

function takeRoom(problem: GemmProblem<CpuMemory>, tile: Tile, context: PlanContext): Room {
  const { dtype, m, n, k, batch, strideB } = problem;
  const hasSums = finishKernels[dtype] !== undefined;
  // Only sums take room for every row.
  const blockRows = hasSums ? evenParts(m, blocking.m, tile.rows) : m;
  const blockColumns = evenParts(n, blocking.n, tile.columns);
  const depth = Math.min(k, blocking.k);
  const bPanelsBatch = 4 * blockColumns * depth;
  const sumsBatch = hasSums ? 4 * blockRows * blockColumns : 0;
  const together = Math.floor(blocking.batchBytes / (bPanelsBatch + sumsBatch));
  const group = Math.min(batch, Math.max(1, together));
  const roomBytes = 4 * blocking.chunkTiles * tile.rows * depth;
  return {
    blockRows,
    blockColumns,
    group,
    bPanels: context.workspace(bPanelsBatch * (strideB === 0 ? 1 : group)),
    bPanelsBatch,
    sums: sumsBatch === 0 ? 0 : context.workspace(sumsBatch * group),
    sumsBatch,
    rooms: context.workspace(roomBytes * context.workers),
    roomBytes,
  };
}

function* blocks(problem: GemmProblem<CpuMemory>, room: Room): Generator<Block> {
  const { m, n, batch } = problem;
  const { blockRows, blockColumns, group } = room;
  for (let firstMatrix = 0; firstMatrix < batch; firstMatrix += group) {
    const matrices = Math.min(group, batch - firstMatrix);
    for (let column = 0; column < n; column += blockColumns) {
      const columns = Math.min(blockColumns, n - column);
      for (let row = 0; row < m; row += blockRows) {
        yield { firstMatrix, matrices, row, rows: Math.min(blockRows, m - row), column, columns };
      }
    }
  }
}
