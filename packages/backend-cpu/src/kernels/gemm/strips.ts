import { dtypeBytes, float32ToBits, type GemmProblem } from "@backplane/core";
import { elementFormats } from "../elements/index.js";
import type { EpilogueParameters } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { packNanoseconds } from "../panels/index.js";
import type { GemmKernels } from "./gemm.wasm.js";
import { linesOfA, linesOfB } from "./lines.js";
import type { Tile } from "./tile.js";
import { blocking, productNanoseconds } from "./variants.js";

/**
 * gemm with so few rows that one command packs all of op(A) at once, and a single chunk uses each element of
 * op(B). A chunk computes a strip: some columns of C, all rows. It packs its columns of op(B) itself, one
 * stretch of k after the other, into its worker's buffer, which stays in the second-level cache. So packed B
 * is never written to memory, and one command covers all of k.
 */

/** Returns the plan for a problem with few rows and many columns, or undefined if blocks suit it better. */
export function planStrips(
  problem: GemmProblem<CpuMemory>,
  kernels: GemmKernels,
  tile: Tile,
  context: PlanContext,
  epilogue: EpilogueParameters,
): readonly Launch[] | undefined {
  const { dtype, m, n, k, batch, strideA } = problem;
  const { workers } = context;
  const aPanelsBatch = 4 * Math.ceil(m / tile.rows) * tile.rows * k;
  if (m > blocking.stripRows || aPanelsBatch > blocking.batchBytes) return undefined;
  if (workers > 1 && Math.ceil(n / blocking.leastColumns) * batch < 2 * workers) return undefined;
  const chunkColumns = columnsOfStrip(n, batch, workers, tile);
  const columnChunks = Math.ceil(n / chunkColumns);
  // Matrices of a batch that are packed together: as many as stay in the cache, and enough for all workers.
  const sharesA = strideA === 0;
  const cached = Math.floor(blocking.stripBatchBytes / aPanelsBatch);
  const group = sharesA
    ? batch
    : Math.min(batch, Math.max(1, cached, Math.ceil((2 * workers) / columnChunks)));
  const bytes = dtypeBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  const cBatch = problem.strideC * bytes;
  const aPanels = context.workspace(aPanelsBatch * (sharesA ? 1 : group));
  const sums = 4 * chunkColumns * Math.min(k, blocking.k);
  const roomBytes = sums + (elementFormats[dtype].converted ? 4 * m * chunkColumns : 0);
  const rooms = context.workspace(roomBytes * workers);
  const aChunks = Math.ceil(m / (blocking.packPanels * tile.rows));
  // If one chunk packs all of A.
  const even = aChunks === 1 ? 1 : 0;
  const launches: Launch[] = [];
  for (let first = 0; first < batch; first += group) {
    const matrices = Math.min(group, batch - first);
    const aCopies = sharesA ? 1 : matrices;
    const pack = {
      k,
      matrixChunks: aChunks,
      source: a.address + first * a.batch,
      stride: a.stride,
      batch: a.batch,
      alongK: a.alongK,
      lines: m,
      panels: aPanels,
      panelsBatch: aPanelsBatch,
      even,
    };
    const multiply = {
      m,
      n,
      k,
      a: aPanels,
      aBatch: sharesA ? 0 : aPanelsBatch,
      b: b.address + first * b.batch,
      bStride: b.stride,
      bBatch: b.batch,
      bAlongK: b.alongK,
      bLineStep: b.lineStep,
      bKStep: b.kStep,
      c: address(problem.c) + first * cBatch,
      stride: problem.ldc * bytes,
      cBatch,
      alpha: float32ToBits(problem.alpha),
      beta: float32ToBits(problem.beta),
      chunkColumns,
      columnChunks,
      rooms,
      roomBytes,
      even,
      sums,
      bias: epilogue.bias,
      biasStep: epilogue.biasStep,
      activation: epilogue.activation,
    };
    launches.push(
      kernels.packA.launch(pack, aChunks * aCopies, m * k * aCopies * packNanoseconds),
      kernels.strip.launch(multiply, columnChunks * matrices, m * n * k * matrices * productNanoseconds),
    );
  }
  return launches;
}

/** Some strips for each worker, so that they finish together, but not too narrow ones. */
function columnsOfStrip(n: number, batch: number, workers: number, { columns }: Tile): number {
  const wanted = workers === 1 ? 1 : Math.ceil((4 * workers) / batch);
  const width = Math.min(blocking.stripColumns, Math.max(blocking.leastStripColumns, Math.ceil(n / wanted)));
  return Math.ceil(width / columns) * columns;
}
