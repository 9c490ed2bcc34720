import type { GemmProblem } from "@backplane/core";
import { sgemmName, sgemmTypes } from "../../native/sgemm-types.js";
import {
  address,
  type BlasUse,
  type CpuMemory,
  type Launch,
  launchers,
  type NativeProducts,
  type PlanContext,
} from "../kernel.js";
import { evenParts } from "../vector/index.js";

/** The properties that determine the choice. */
export type BlasShape = Pick<GemmProblem<unknown>, "dtype" | "m" | "n" | "k" | "lda" | "ldb" | "ldc">;

/** When a library is used, and for how much at a time. */
export const blasBlocking = {
  /** Multiply-adds of one matrix from which a library is the faster one (32^3). */
  leastProducts: 32768,
  /** With fewer rows or columns, the kernels that read the other matrix in place are faster. */
  leastRows: 4,
  leastColumns: 2,
  /** Elements of C for one chunk: a quarter of C, within these bounds (128^2, 512^2). */
  leastArea: 16384,
  mostArea: 262144,
  /** The width and height of chunks are multiples of this. */
  unit: 16,
  /** Multiply-adds that make a chunk of a batch worth its while. */
  chunkProducts: 262144,
} as const;

/** The largest leading dimension that a library with 32-bit integers takes. */
const mostLeadingDimension = 2 ** 31 - 1;

/** Roughly, on one thread. */
const nanosecondsPerProduct = 0.01;

/** Whether the library has it: f32, and leading dimensions that fit. k may not be 0. */
export function blasComputes({ dtype, lda, ldb, ldc }: BlasShape): boolean {
  return dtype === "f32" && Math.max(lda, ldb, ldc) <= mostLeadingDimension;
}

/** Whether the library is faster than our own kernels. */
function blasSuits({ m, n, k }: BlasShape): boolean {
  const { leastProducts, leastRows, leastColumns } = blasBlocking;
  return m >= leastRows && n >= leastColumns && m * n * k >= leastProducts;
}

/** Whether the native library computes a problem; k is not 0. */
export function usesBlas(problem: BlasShape, blas: BlasUse): boolean {
  if (blas === "never" || !blasComputes(problem)) return false;
  return blas === "where possible" || blasSuits(problem);
}

/**
 * Returns the rows and columns of C for one chunk. They depend on the shape alone and not on the number of
 * workers: a library may sum in another order for another shape of the part of C.
 */
export function blasChunk(m: number, n: number): { readonly rows: number; readonly columns: number } {
  const { leastArea, mostArea, unit } = blasBlocking;
  const area = Math.min(mostArea, Math.max(leastArea, (m * n) / 4));
  const side = Math.sqrt(area);
  // If C is narrower than that one way, chunks are longer the other way.
  const columns = evenParts(n, Math.max(side, area / m), unit);
  return { rows: evenParts(m, Math.max(side, area / Math.min(n, columns)), unit), columns };
}

const { launch } = launchers(sgemmName, sgemmTypes);

/** gemm by the native library, in one command. */
function planBlas(problem: GemmProblem<CpuMemory>, { workers }: PlanContext): Launch {
  const { m, n, k, batch, strideA, strideB, strideC } = problem;
  const chunk = blasChunk(m, n);
  const rowChunks = Math.ceil(m / chunk.rows);
  const columnChunks = Math.ceil(n / chunk.columns);
  // For small matrices, a chunk for each would cost more than it gains.
  const worthwhile = Math.ceil(blasBlocking.chunkProducts / (m * n * k));
  const matricesPerChunk = Math.min(worthwhile, Math.ceil(batch / workers));
  const { kernel, words, chunks, helpers } = launch(
    {
      // One plain literal: spreads into one cost ten microseconds.
      m,
      n,
      k,
      batch,
      matricesPerChunk,
      rowChunks,
      columnChunks,
      transA: problem.transA ? 1 : 0,
      transB: problem.transB ? 1 : 0,
      lda: problem.lda,
      ldb: problem.ldb,
      ldc: problem.ldc,
      a: address(problem.a),
      b: address(problem.b),
      c: address(problem.c),
      // It lies within the memory, and so has 32 bits, if there is a second matrix.
      aBatch: batch === 1 ? 0 : 4 * strideA,
      bBatch: batch === 1 ? 0 : 4 * strideB,
      cBatch: batch === 1 ? 0 : 4 * strideC,
      alpha: problem.alpha,
      beta: problem.beta,
      chunkRows: chunk.rows,
      chunkColumns: chunk.columns,
    },
    rowChunks * columnChunks * Math.ceil(batch / matricesPerChunk),
    batch * m * n * k * nanosecondsPerProduct,
  );
  // Without a time: however short it is, workers alone can call the library.
  return { kernel, words, chunks, helpers };
}

/** For backends that may have a native library. */
export const nativeProducts: NativeProducts = { computes: usesBlas, plan: planBlas };
