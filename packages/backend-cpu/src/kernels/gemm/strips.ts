import { type DType, float32ToBits, type GemmProblem } from "@backplane/core";
import { f32, i32 } from "../../wasm/index.js";
import { elementsOf } from "../convert/elements.js";
import { type EpilogueParameters, epilogueFunction, hasEpilogue } from "../epilogue.js";
import {
  address,
  type CpuMemory,
  defineKernel,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import { finishRows } from "./finish.js";
import type { GemmKernels } from "./gemm.wasm.js";
import { linesOfA, linesOfB } from "./lines.js";
import { packFunction } from "./pack.js";
import { blockFunction, spareBytes, type Tile, tileName } from "./tile.js";
import { blocking, elementBytes, packNanoseconds, productNanoseconds } from "./variants.js";

/**
 * gemm with so few rows that all of op(A) is packed at once, by one command, and each element of op(B)
 * is used by a single chunk. A chunk computes a strip: some columns of C, all rows. It packs its
 * columns of op(B) itself, a stretch of k after the other, into a room of its worker's that stays in
 * the second-level cache, so that packed B is never written to memory; and for all of k there is one
 * command.
 */

const stripTypes = {
  m: "i32",
  n: "i32",
  k: "i32",
  /** Panels of A, each over all of k; bytes from matrix to matrix. */
  a: "i32",
  aBatch: "i32",
  b: "i32",
  bStride: "i32",
  bBatch: "i32",
  bAlongK: "i32",
  /** Bytes from column to column of op(B), and along k. */
  bLineStep: "i32",
  bKStep: "i32",
  c: "i32",
  stride: "i32",
  cBatch: "i32",
  alpha: "i32",
  beta: "i32",
  /** Columns of a strip, a multiple of the tile's; and how many strips a matrix has. */
  chunkColumns: "i32",
  columnChunks: "i32",
  /** Room of worker 0, for panels of B and then, for f16, sums; bytes from worker to worker. */
  rooms: "i32",
  roomBytes: "i32",
  /** As the panels of A were packed. */
  even: "i32",
  sums: "i32",
  bias: "i32",
  biasStep: "i32",
  activation: "i32",
} as const;

export type StripKernel = Kernel<typeof stripTypes>;

export function stripKernel(tile: Tile, dtype: DType, requires: "relaxedSimd" | undefined): StripKernel {
  return defineKernel({
    ...(requires === undefined ? {} : { requires }),
    name: `gemm_strip_${dtype}_${tileName(tile)}`,
    parameters: stripTypes,
    scratchBytes: spareBytes(tile),
    emit(f, { parameters, chunk, scratch, worker, module }) {
      const { m, n, k, a, aBatch, b, bStride, bBatch, bAlongK, bLineStep, bKStep } = parameters;
      const { c, stride, cBatch, alpha, beta, chunkColumns, columnChunks } = parameters;
      const matrix = f.let(i32.divU(chunk, columnChunks));
      const first = f.let(i32.mul(i32.remU(chunk, columnChunks), chunkColumns));
      const columns = f.let(i32.minU(i32.sub(n, first), chunkColumns));
      const panels = f.let(i32.add(parameters.rooms, i32.mul(worker, parameters.roomBytes)));
      const corner = i32.add(i32.mul(matrix, cBatch), i32.shl(first, dtype === "f32" ? 2 : 1));
      const target = f.let(i32.add(c, corner));
      // f32 is added to C right away; f16 first to sums in f32, which are rounded at the end.
      const direct = dtype === "f32";
      const sums = direct ? target : f.let(i32.add(panels, parameters.sums));
      const sumsStride = direct ? stride : f.let(i32.shl(chunkColumns, 2));
      const one = f.let(i32.const(0x3f800000));
      const oldFactor = f.let(direct ? beta : i32.const(0));
      const aPanelBytes = f.let(i32.mul(k, 4 * tile.rows));
      const aStretch = f.let(i32.add(a, i32.mul(matrix, aBatch)));
      const bStretch = f.let(i32.add(b, i32.add(i32.mul(matrix, bBatch), i32.mul(first, bLineStep))));
      const depth = f.let(i32.const(0));
      f.forRange(
        0,
        k,
        (p) => {
          f.set(depth, i32.minU(i32.sub(k, p), blocking.k));
          f.call(
            packFunction(module, dtype, tile.columns),
            bStretch,
            bStride,
            columns,
            depth,
            panels,
            bAlongK,
            0,
          );
          f.call(
            blockFunction(module, tile),
            ...[aStretch, aPanelBytes, panels, depth, m, columns],
            ...[sums, sumsStride, direct ? alpha : one, oldFactor, scratch, parameters.even],
          );
          f.add(aStretch, 4 * tile.rows * blocking.k);
          f.add(bStretch, i32.mul(bKStep, blocking.k));
          f.set(oldFactor, one);
        },
        { step: blocking.k },
      );
      const { bias, biasStep, activation } = parameters;
      f.if(bias, () => f.add(bias, i32.mul(first, biasStep)));
      if (direct) {
        f.if(hasEpilogue(parameters), () =>
          f.call(epilogueFunction(module), target, stride, m, columns, bias, biasStep, activation),
        );
      } else {
        finishRows(f, module, elementsOf(f, dtype), {
          ...{ sums, sumsStride, m, n: columns, c: target, stride },
          epilogue: { bias, biasStep, activation },
          alpha: f.let(f32.reinterpretI32(alpha)),
          beta: f.let(f32.reinterpretI32(beta)),
        });
      }
    },
  });
}

/** The plan for a problem with few rows and many columns, or undefined where blocks suit it better. */
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
  const bytes = elementBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  const cBatch = problem.strideC * bytes;
  const aPanels = context.workspace(aPanelsBatch * (sharesA ? 1 : group));
  const sums = 4 * chunkColumns * Math.min(k, blocking.k);
  const roomBytes = sums + (dtype === "f16" ? 4 * m * chunkColumns : 0);
  const rooms = context.workspace(roomBytes * workers);
  const aChunks = Math.ceil(m / (blocking.packPanels * tile.rows));
  // Where one chunk packs all of A.
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
