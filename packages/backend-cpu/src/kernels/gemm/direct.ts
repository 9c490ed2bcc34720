import { dtypeBytes, type GemmProblem } from "@backplane/core";
import type { EpilogueParameters } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { packNanoseconds } from "../panels/index.js";
import { tileColumns, tileRows } from "../tile/index.js";
import { directKernel } from "./direct.wasm.js";
import { linesOfA, linesOfB } from "./lines.js";
import { manyColumns } from "./skinny.js";
import { blocking, fewRows, productNanoseconds } from "./variants.js";

/**
 * Up to so many rows a small B with many columns is read as it lies (skinny.ts). A large B is, up to twice as many: each
 * worker would pack its part of it, and A as well. A small B is packed within the cache, and A is not.
 */
const unpackedRows = 16;
/** About the fewest rows of a chunk when work is divided among workers: each packs B anew, which takes as long as 8 rows. */
const leastRows = 96;
/** Roughly how long a row of sums takes from panel to panel, besides its products: if k is small, longer than they do. */
const storeNanoseconds = 3;

/**
 * Whether a problem has a small B and is of the form that the kernel takes. It depends on the problem alone: so does then
 * whether the problem may go to skinny.ts, which adds up in another order if B is stored by columns.
 */
export function suitsDirect(problem: GemmProblem<CpuMemory>): boolean {
  const { dtype, m, n, k, batch, alpha, beta, transA } = problem;
  if (dtype !== "f32" || transA || alpha !== 1 || beta !== 0 || k > blocking.k) return false;
  if (m <= fewRows || (m <= unpackedRows && n >= manyColumns)) return false;
  if (4 * Math.ceil(n / tileColumns) * tileColumns * k > blocking.smallBytes) return false;
  return batch === 1 || m * n * k >= blocking.chunkProducts;
}

/**
 * gemm with a small B, such as pixels times a filter. Each chunk packs all of B, which then stays in the cache, and reads its
 * rows of A as they lie. It adds the bias, and applies relu and relu6, before it stores the sums: packing A, and going over C
 * again, would take longer than the products if k or n is small. For the other activations a chunk does go over its rows of C
 * again. Only C = activation(op(A) op(B) + bias) with the rows of A along k. The arithmetic is the same as that of blocks.
 *
 * Returns the plan of a problem that suits, or undefined if its rows are too few for all workers.
 */
export function planDirect(
  problem: GemmProblem<CpuMemory>,
  { features, workers }: PlanContext,
  epilogue: EpilogueParameters,
): Launch | undefined {
  const { dtype, m, n, k, batch } = problem;
  const panels = Math.ceil(n / tileColumns);
  const panelNanoseconds = tileColumns * k * productNanoseconds + storeNanoseconds;
  const work = m * batch * panels * panelNanoseconds;
  const isWhole = workers === 1 || work <= blocking.smallProducts * productNanoseconds;
  // Equal chunks, and as many for each worker: so they finish together.
  const worthwhile = Math.ceil((m * batch) / leastRows);
  const wanted = worthwhile < 2 * workers ? Math.min(worthwhile, workers) : 2 * workers;
  const rows = tileRows(features);
  const chunkRows = Math.ceil(m / (isWhole ? 1 : Math.ceil(wanted / batch)) / rows) * rows;
  const rowChunks = Math.ceil(m / chunkRows);
  const chunks = rowChunks * batch;
  // Then there are strips for all workers.
  if (!isWhole && chunks < workers) return undefined;
  const bytes = dtypeBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  // In the order of `directTypes`.
  const parameters = [m, n, k, a.address, a.stride, a.batch, b.address, b.stride, b.batch, b.alongK];
  parameters.push(address(problem.c), problem.ldc * bytes, problem.strideC * bytes, chunkRows, rowChunks);
  parameters.push(epilogue.bias, epilogue.activation);
  return directKernel.launchList(parameters, chunks, work + chunks * n * k * packNanoseconds);
}
