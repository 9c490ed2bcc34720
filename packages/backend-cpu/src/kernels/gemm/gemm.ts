import { BackendError, type DType, type GemmProblem } from "@backplane/core";
import { widen } from "../convert/convert.js";
import { fillBytes } from "../fill.js";
import type { AnyKernel, CpuMemory, CpuOperation, Launch, PlanContext } from "../kernel.js";
import { type BlasShape, blasComputes, blasSuits, planBlas } from "./blas.js";
import { BlockPlanner } from "./blocks.js";
import { planEpilogue, zeroProduct } from "./epilogue.js";
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
  // Whatever comes after one that runs everywhere is never chosen.
  const chosen = tileVariants.slice(0, 1 + tileVariants.findIndex(({ requires }) => requires === undefined));
  const variants = anyTile ? chosen : tileVariants.filter(({ name }) => name === forced);
  const kernels: AnyKernel[] = [finishHalves, widen, fillBytes, ...Object.values(scaleKernels)];
  for (const byStorage of Object.values(skinnyKernels)) kernels.push(...Object.values(byStorage));
  for (const { name } of variants) {
    for (const byType of Object.values(kernelTable.get(name)!)) kernels.push(...Object.values(byType));
  }
  return {
    dtypes: ["f32", "f16"],
    epilogue: true,
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
  const isPlain = given.bias === undefined && given.activation === undefined;
  if (given.k === 0 && isPlain) return [planScale(given)];
  // Products of zeros are summed by kernels of ours, which add nothing to them.
  if (given.k === 0) return planEpilogueOnly(given, context, selection);
  const merged = mergeBatch(given);
  const problem = turnColumn(merged);
  if (usesBlas(problem, selection)) {
    const product = planBlas(problem, context);
    return isPlain ? [product] : [product, ...planEpilogueOnly({ ...given, beta: 1 }, context, selection)];
  }
  const { name, tile } = selection.tile;
  const kernels = kernelTable.get(name)![problem.dtype];
  const { parameters, launches } = planEpilogue(merged, context);
  // The only column of a turned problem has one bias for all.
  const epilogue = problem === merged ? parameters : { ...parameters, biasStep: 0 };
  const single =
    planSkinny(problem, context, epilogue) ?? planSmall(problem, kernels, tile, context, epilogue);
  const rest =
    single !== undefined ? [single] : new BlockPlanner(problem, kernels, tile, context, epilogue).plan();
  return launches.length === 0 ? rest : [...launches, ...rest];
}

/** C = activation(beta * C + bias). */
function planEpilogueOnly(given: Problem, context: PlanContext, { tile }: GemmSelection): readonly Launch[] {
  const { problem, launch } = zeroProduct(given, context);
  return [launch, ...planGemm(problem, context, { tile, blas: "never" })];
}

/** Whether the native library computes a problem; k is not 0. */
export function usesBlas(problem: BlasShape, { blas }: GemmSelection): boolean {
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
