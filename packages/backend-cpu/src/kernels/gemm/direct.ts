import { dtypeBytes, type GemmProblem } from "@backplane/core";
import type { EpilogueParameters } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { tileColumns, tileRows } from "../tile/index.js";
import { directKernel } from "./direct.wasm.js";
import { linesOfA, linesOfB } from "./lines.js";
import { manyColumns } from "./skinny.js";
import type { Tile } from "./tile.js";
import { blocking, fewRows, productNanoseconds } from "./variants.js";

/** Up to so many rows B is not worth packing if it is wide (skinny.ts). */
const skinnyRows = 16;
/** Rows of a chunk, at least, when work is divided among workers: each chunk packs B anew, which takes as long as 8 rows. */
const leastRows = 96;

/**
 * gemm with a small B, such as pixels times a filter. One chunk packs all of B, which then stays in the cache, reads its
 * rows of A as they lie, and finishes the sums before it stores them: packing A, and going over C again for bias and
 * activation, would take longer than the products if k or n is small. Only C = activation(op(A) op(B) + bias) with the
 * rows of A along k. The arithmetic is the same as that of blocks.
 *
 * Returns the plan, or undefined if the problem is of another form.
 */
export function planDirect(
  problem: GemmProblem<CpuMemory>,
  tile: Tile,
  { features, workers }: PlanContext,
  epilogue: EpilogueParameters,
): Launch | undefined {
  const { dtype, m, n, k, batch, alpha, beta, transA } = problem;
  // A variant that somebody has forced rounds as it says.
  if (dtype !== "f32" || tile.fused !== features.relaxedSimd) return undefined;
  if (transA || alpha !== 1 || beta !== 0 || k > blocking.k) return undefined;
  if (m <= fewRows || (m <= skinnyRows && n >= manyColumns)) return undefined;
  if (4 * Math.ceil(n / tileColumns) * tileColumns * k > blocking.smallBytes) return undefined;
  const products = m * n * k;
  if (batch > 1 && products < blocking.chunkProducts) return undefined;
  const isWhole = workers === 1 || products * batch <= blocking.smallProducts;
  const rows = tileRows(features);
  const share = Math.max(leastRows, Math.ceil((m * batch) / (2 * workers)));
  const chunkRows = isWhole ? m : Math.ceil(share / rows) * rows;
  const rowChunks = Math.ceil(m / chunkRows);
  // Then there are strips for all workers.
  if (!isWhole && rowChunks * batch < workers) return undefined;
  const bytes = dtypeBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  const parameters = {
    m,
    n,
    k,
    a: a.address,
    aStride: a.stride,
    aBatch: a.batch,
    b: b.address,
    bStride: b.stride,
    bBatch: b.batch,
    bAlongK: b.alongK,
    c: address(problem.c),
    stride: problem.ldc * bytes,
    cBatch: problem.strideC * bytes,
    chunkRows,
    rowChunks,
    // One plain literal: for small calls an object spread would show.
    bias: epilogue.bias,
    activation: epilogue.activation,
  };
  return directKernel.launch(parameters, rowChunks * batch, products * batch * productNanoseconds);
}
