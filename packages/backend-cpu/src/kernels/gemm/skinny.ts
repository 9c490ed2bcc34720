import { dtypeBytes, type FloatType, type GemmProblem } from "@backplane/core";
import type { EpilogueParameters } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { linesOfA, linesOfB } from "./lines.js";
import { largeElements, partsOf, planCombine } from "./parts.js";
import { cachedDepth, skinnyKernels, stretchDepth } from "./skinny.wasm.js";
import { blocking, fewRows, skinnyProductNanoseconds } from "./variants.js";

/**
 * gemm with few rows, down to a vector times a matrix. Packing would read and write all of B in order to use
 * it a few times; here B is read in place, from memory once, straight ahead.
 *
 * A chunk computes some columns of C, with the sums in f32 in the scratch. If it is worth dividing k and all
 * columns fit, a chunk computes the sums over a part of k instead (parts.ts).
 */

/** More rows than these are worth packing for. B in f16 would be widened again for every two rows. */
const mostRows: Readonly<Record<FloatType, number>> = { f32: 32, f16: 2 };
/** With fewer columns than these it is not worth it: less of the time is spent in the innermost loop. */
const fewestColumns = 16;
/** The same for more than a few rows, for which packing takes a smaller share. */
export const manyColumns = 96;
/** Elements of B from which on it comes from memory: 32 MiB, which few caches hold. */
const memoryElements = 1 << 23;
/** Fewest columns of a chunk; and most for many rows, if there are several workers, which then finish together. */
const leastColumns = 64;
const manyRowsColumns = 256;

/** Returns the plan for a problem with few rows, or undefined if packing is better. */
export function planSkinny(
  problem: GemmProblem<CpuMemory>,
  context: PlanContext,
  epilogue: EpilogueParameters,
): readonly Launch[] | undefined {
  const { workers } = context;
  const { dtype, m, n, k, batch, transB } = problem;
  if (m > mostRows[dtype] || n < fewestColumns || (m > fewRows && n < manyColumns)) return undefined;
  const bytes = dtypeBytes[dtype];
  const a = linesOfA(problem);
  const b = linesOfB(problem);
  // Products along k want both factors along k.
  if (transB && a.kStep !== bytes) return undefined;
  const parts = partsOf(problem);
  const partDepth = Math.ceil(k / parts / 8) * 8;
  const apart = m <= fewRows || parts > 1 || k * n >= largeElements;
  // Two for each worker, so that they finish together; but whole rows if only one of them will have work.
  const whole = workers === 1 || parts > 1 || m * n * k * batch <= blocking.smallProducts;
  const even = Math.ceil((n * batch) / (2 * workers));
  const share = whole ? n : apart ? even : Math.min(even, manyRowsColumns);
  // Sums of parts are in the workspace, all others in the scratch.
  const most = Math.floor((parts > 1 ? blocking.partSums : blocking.skinnySums) / m / 16) * 16;
  const chunkColumns = Math.min(most, Math.max(leastColumns, Math.ceil(share / 16) * 16));
  const columnChunks = Math.ceil(n / chunkColumns);
  const partials = parts > 1 ? context.workspace(4 * parts * m * chunkColumns) : 0;
  const parameters = {
    m,
    n,
    k,
    a: a.address,
    aRow: a.lineStep,
    aK: a.kStep,
    aBatch: a.batch,
    b: b.address,
    bStride: b.stride,
    bBatch: b.batch,
    c: address(problem.c),
    stride: problem.ldc * bytes,
    cBatch: problem.strideC * bytes,
    alpha: problem.alpha,
    beta: problem.beta,
    chunkColumns,
    columnChunks,
    parts: Math.ceil(k / partDepth),
    partDepth,
    partials,
    apart: apart ? 1 : 0,
    depth: m === 1 && k * n < memoryElements ? cachedDepth[dtype] : stretchDepth,
    // One plain literal: for small calls an object spread would show.
    bias: epilogue.bias,
    biasStep: epilogue.biasStep,
    activation: epilogue.activation,
  };
  const kernels = skinnyKernels[dtype];
  const product = (transB ? kernels.transposed : kernels.stored).launch(
    parameters,
    columnChunks * batch * parameters.parts,
    m * n * k * batch * skinnyProductNanoseconds,
  );
  return parts === 1 ? [product] : [product, planCombine(problem, parameters, epilogue)];
}
