import { float32ToBits, type GemmProblem } from "@backplane/core";
import { type EpilogueParameters, noEpilogue } from "../epilogue.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { finishHalves } from "./finish.js";
import type { GemmKernels } from "./gemm.wasm.js";
import { type Lines, linesOfA, linesOfB } from "./lines.js";
import type { Tile } from "./tile.js";
import { blocking, elementBytes, evenParts, packNanoseconds, productNanoseconds } from "./variants.js";

/** One block of C, or the same block of several C of a batch. */
interface Block {
  readonly firstMatrix: number;
  readonly matrices: number;
  readonly row: number;
  readonly rows: number;
  readonly column: number;
  readonly columns: number;
}

/** The workspace of a plan: room for panels and, for f16, sums of one block. */
interface Room {
  readonly blockRows: number;
  readonly blockColumns: number;
  /** Matrices of a batch that are handled together. */
  readonly group: number;
  readonly aPanels: number;
  readonly bPanels: number;
  /** Bytes from matrix to matrix. */
  readonly aPanelsBatch: number;
  readonly bPanelsBatch: number;
  readonly sums: number;
  readonly sumsBatch: number;
}

/** Plans the blocks of C one after the other, each in stretches of k: pack, multiply, pack, ... */
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
    const launches: Launch[] = [];
    for (const block of blocks(this.#problem, this.#room)) {
      for (let p = 0; p < k; p += blocking.k) {
        const depth = Math.min(blocking.k, k - p);
        launches.push(this.#pack(block, p, depth), this.#multiply(block, p, depth));
      }
      if (dtype === "f16") launches.push(this.#finish(block));
    }
    return launches;
  }

  /** How many of the matrices of a block need panels of their own. */
  #copies(stride: number, block: Block): number {
    return stride === 0 ? 1 : block.matrices;
  }

  #pack(block: Block, p: number, depth: number): Launch {
    const { firstMatrix, row, rows, column, columns } = block;
    const { strideA, strideB } = this.#problem;
    const a = this.#a;
    const b = this.#b;
    const room = this.#room;
    const aChunks = Math.ceil(rows / (blocking.packPanels * this.#tile.rows));
    const bChunks = Math.ceil(columns / (blocking.packPanels * this.#tile.columns));
    const aCopies = this.#copies(strideA, block);
    const parameters = {
      k: depth,
      aChunks,
      bChunks,
      aCopies,
      a: a.address + firstMatrix * a.batch + row * a.lineStep + p * a.kStep,
      aStride: a.stride,
      aBatch: a.batch,
      aAlongK: a.alongK,
      aLines: rows,
      aPanels: room.aPanels,
      // Chunks of rows end elsewhere than those that pack.
      aEven: 0,
      b: b.address + firstMatrix * b.batch + column * b.lineStep + p * b.kStep,
      bStride: b.stride,
      bBatch: b.batch,
      bAlongK: b.alongK,
      bLines: columns,
      bPanels: room.bPanels,
      aPanelsBatch: room.aPanelsBatch,
      bPanelsBatch: room.bPanelsBatch,
    };
    const bCopies = this.#copies(strideB, block);
    const elements = (rows * aCopies + columns * bCopies) * depth;
    const chunks = aChunks * aCopies + bChunks * bCopies;
    return this.#kernels.pack.launch(parameters, chunks, elements * packNanoseconds);
  }

  #multiply(block: Block, p: number, depth: number): Launch {
    const { matrices, rows, columns } = block;
    const { dtype, k, strideA, strideB, strideC, ldc, alpha, beta } = this.#problem;
    const room = this.#room;
    // f32 is added to C right away; f16 first to sums in f32, which are rounded at the end.
    const direct = dtype === "f32";
    const firstBeta = direct ? beta : 0;
    const { chunkRows, chunkColumns } = this.#divide(block);
    const rowChunks = Math.ceil(rows / chunkRows);
    const columnChunks = Math.ceil(columns / chunkColumns);
    const parameters = {
      a: room.aPanels,
      b: room.bPanels,
      aBatch: this.#copies(strideA, block) === 1 ? 0 : room.aPanelsBatch,
      bBatch: this.#copies(strideB, block) === 1 ? 0 : room.bPanelsBatch,
      m: rows,
      n: columns,
      k: depth,
      c: direct ? this.#cAddress(block) : room.sums,
      cBatch: direct ? strideC * elementBytes.f32 : room.sumsBatch,
      stride: direct ? ldc * elementBytes.f32 : 4 * room.blockColumns,
      alpha: float32ToBits(direct ? alpha : 1),
      beta: float32ToBits(p === 0 ? firstBeta : 1),
      chunkRows,
      chunkColumns,
      rowChunks,
      columnChunks,
      // C is finished, and still in the cache, after the last stretch of k.
      ...(direct && p + depth === k ? this.#epilogueOf(block) : noEpilogue),
    };
    return this.#kernels.multiply.launch(
      parameters,
      rowChunks * columnChunks * matrices,
      matrices * rows * columns * depth * productNanoseconds,
    );
  }

  #finish(block: Block): Launch {
    const { matrices, rows, columns } = block;
    const { strideC, ldc, alpha, beta } = this.#problem;
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
      stride: ldc * elementBytes.f16,
      cBatch: strideC * elementBytes.f16,
      alpha,
      beta,
      chunkRows,
      rowChunks,
      ...this.#epilogueOf(block),
    };
    return finishHalves.launch(parameters, rowChunks * matrices);
  }

  #epilogueOf({ column }: Block): EpilogueParameters {
    const { bias, biasStep, activation } = this.#epilogue;
    return { bias: bias === 0 ? 0 : bias + column * biasStep, biasStep, activation };
  }

  #cAddress({ firstMatrix, row, column }: Block): number {
    const { c, dtype, strideC, ldc } = this.#problem;
    return address(c) + (firstMatrix * strideC + row * ldc + column) * elementBytes[dtype];
  }

  /**
   * Divides a block of C into chunks: small ones, so that workers finish together also where one of them
   * has been kept from working, and at least four for each.
   */
  #divide({ rows, columns, matrices }: Block): { chunkRows: number; chunkColumns: number } {
    const chunkRows = evenParts(rows, blocking.chunkRows, this.#tile.rows);
    const others = Math.ceil(rows / chunkRows) * matrices;
    const wanted = this.#workers === 1 ? 1 : 4 * this.#workers;
    let parts = Math.max(Math.ceil(wanted / others), Math.ceil(columns / blocking.chunkColumns));
    // As many for each: of nine chunks, two workers would do five and four.
    while ((others * parts) % this.#workers !== 0) parts++;
    const most = Math.max(blocking.leastColumns, Math.ceil(columns / parts));
    return { chunkRows, chunkColumns: evenParts(columns, most, this.#tile.columns) };
  }
}

function takeRoom(problem: GemmProblem<CpuMemory>, tile: Tile, context: PlanContext): Room {
  const { dtype, m, n, k, batch, strideA, strideB } = problem;
  const blockRows = evenParts(m, blocking.m, tile.rows);
  const blockColumns = evenParts(n, blocking.n, tile.columns);
  const depth = Math.min(k, blocking.k);
  const aPanelsBatch = 4 * blockRows * depth;
  const bPanelsBatch = 4 * blockColumns * depth;
  const sumsBatch = dtype === "f16" ? 4 * blockRows * blockColumns : 0;
  const together = Math.floor(blocking.batchBytes / (aPanelsBatch + bPanelsBatch + sumsBatch));
  const group = Math.min(batch, Math.max(1, together));
  return {
    blockRows,
    blockColumns,
    group,
    aPanels: context.workspace(aPanelsBatch * (strideA === 0 ? 1 : group)),
    bPanels: context.workspace(bPanelsBatch * (strideB === 0 ? 1 : group)),
    aPanelsBatch,
    bPanelsBatch,
    sums: sumsBatch === 0 ? 0 : context.workspace(sumsBatch * group),
    sumsBatch,
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
