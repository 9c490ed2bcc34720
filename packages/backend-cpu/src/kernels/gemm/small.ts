import { dtypeBytes, float32ToBits, type GemmProblem } from "@backplane/core";
import { elementFormats } from "../elements/index.js";
import type { EpilogueParameters } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import type { GemmKernels } from "./gemm.wasm.js";
import { linesOfA, linesOfB } from "./lines.js";
import { spareBytes, type Tile } from "./tile.js";
import { blocking, productNanoseconds } from "./variants.js";

/**
 * Returns the plan for matrices so small that one chunk packs and multiplies a whole one, or several of a
 * batch. Returns undefined if they do not fit the scratch or are better divided among workers. The arithmetic
 * is the same as that of blocks, so this choice may depend on the number of workers.
 */
export function planSmall(
  problem: GemmProblem<CpuMemory>,
  kernels: GemmKernels,
  tile: Tile,
  { workers }: PlanContext,
  epilogue: EpilogueParameters,
): Launch | undefined {
  const { dtype, m, n, k, batch } = problem;
  const products = m * n * k;
  if (k > blocking.k || (batch === 1 && workers > 1 && products > blocking.smallProducts)) return undefined;
  const rows = Math.ceil(m / tile.rows) * tile.rows;
  const columns = Math.ceil(n / tile.columns) * tile.columns;
  const bPanels = spareBytes(tile) + 4 * rows * k;
  const sums = bPanels + 4 * columns * k;
  const end = sums + (elementFormats[dtype].converted ? 4 * rows * columns : 0);
  if (end > blocking.smallBytes) return undefined;

  const bytes = dtypeBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  // For tiny matrices, a chunk for each would cost more than it gains.
  const worthwhile = Math.ceil(blocking.chunkProducts / products);
  const matricesPerChunk = Math.min(worthwhile, Math.ceil(batch / workers));
  // In the order of `smallTypes`.
  const parameters = [m, n, k, a.address, a.stride, a.batch, a.alongK, b.address, b.stride, b.batch];
  parameters.push(b.alongK, address(problem.c), problem.ldc * bytes, problem.strideC * bytes);
  parameters.push(float32ToBits(problem.alpha), float32ToBits(problem.beta), batch, matricesPerChunk);
  parameters.push(bPanels, sums, 4 * columns, epilogue.bias, epilogue.biasStep, epilogue.activation);
  return kernels.small.launchList(
    parameters,
    Math.ceil(batch / matricesPerChunk),
    batch * products * productNanoseconds,
  );
}
