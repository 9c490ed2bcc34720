import { BackendError, type DType, type GemmProblem } from "@backplane/core";
import type { AnyKernel, CpuMemory, CpuOperation, Launch, PlanContext } from "../kernel.js";
import { blasComputes, blasSuits, planBlas } from "./blas.js";
import { BlockPlanner } from "./blocks.js";
import { finishHalves } from "./finish.js";
import { type GemmKernels, gemmKernels } from "./gemm.wasm.js";
import { planScale, scaleKernels } from "./scale.js";
import { planSkinny, skinnyKernels } from "./skinny.js";
import { planSmall } from "./small.js";
import { blasVariant, type GemmSelection, selectGemm, tileVariants } from "./variants.js";

type Problem = GemmProblem<CpuMemory>;

const kernelTable: ReadonlyMap<string, Readonly<Record<DType, GemmKernels>>> = new Map(
  tileVariants.map(({ name, tile, requires }) => [
    name,
    { f32: gemmKernels(tile, "f32", requires), f16: gemmKernels(tile, "f16", requires) },
  ]),
);

/**
 * gemm and batchedGemm. Blocked and packed as in Goto and van de Geijn, "Anatomy of high-performance
 * matrix multiplication" (ACM TOMS 34, 2008): C is taken in blocks; for each, and for each stretch
 * of 256 of k, the block of op(A) and the block of op(B) are packed into panels by one command and
 * multiplied by the next. Transposition, leading dimensions and f16 end with packing.
 *
 * Problems with few rows skip packing, and small ones are done in one command. In which order the
 * products of an element are summed follows from the shape alone: results do not depend on the
 * number of workers. Where a native library does gemm instead, blas.ts says which problems.
 */
export function gemmOperation(forced?: string): CpuOperation<Problem> {
  const anyTile = forced === undefined || forced === blasVariant.name;
  const variants = anyTile ? tileVariants : tileVariants.filter(({ name }) => name === forced);
  const kernels: AnyKernel[] = [finishHalves, ...Object.values(scaleKernels)];
  for (const byStorage of Object.values(skinnyKernels)) kernels.push(...Object.values(byStorage));
  for (const { name } of variants) {
    for (const byType of Object.values(kernelTable.get(name)!)) kernels.push(...Object.values(byType));
  }
  return {
    dtypes: ["f32", "f16"],
    kernels,
    plan(problem, context) {
      const selection = selectGemm(context.features, forced);
      if (selection === undefined)
        throw new BackendError("UNSUPPORTED", `gemm: variant ${forced} does not run on this engine`);
      return planGemm(problem, context, selection);
    },
  };
}

function planGemm(given: Problem, context: PlanContext, selection: GemmSelection): readonly Launch[] {
  if (given.k === 0) return [planScale(given)];
  const problem = turnColumn(mergeBatch(given));
  if (usesBlas(problem, selection)) return [planBlas(problem, context)];
  const { name, tile } = selection.tile;
  const kernels = kernelTable.get(name)![problem.dtype];
  const single = planSkinny(problem, context) ?? planSmall(problem, kernels, tile, context);
  return single !== undefined ? [single] : new BlockPlanner(problem, kernels, tile, context).plan();
}

/** Whether the native library computes a problem; k is not 0. */
export function usesBlas(problem: Omit<Problem, "a" | "b" | "c">, { blas }: GemmSelection): boolean {
  if (blas === "never" || !blasComputes(problem)) return false;
  return blas === "where possible" || blasSuits(problem);
}

/** A batch that shares B and whose A and C follow one another is one tall problem. */
function mergeBatch(problem: Problem): Problem {
  const { batch, m, lda, ldc, strideA, strideB, strideC, transA } = problem;
  const oneMatrix = batch > 1 && strideB === 0 && !transA && strideA === m * lda && strideC === m * ldc;
  return oneMatrix ? { ...problem, m: batch * m, batch: 1 } : problem;
}

/** C = A B with one column, stored without gaps, is the row transpose(C) = transpose(B) transpose(A). */
function turnColumn(problem: Problem): Problem {
  const { m, n, a, b, lda, ldb, ldc, strideA, strideB, transA, transB } = problem;
  if (n !== 1 || m === 1 || ldc !== 1) return problem;
  return {
    ...problem,
    m: 1,
    n: m,
    a: b,
    b: a,
    lda: ldb,
    ldb: lda,
    ldc: m,
    strideA: strideB,
    strideB: strideA,
    transA: !transB,
    transB: !transA,
  };
}
