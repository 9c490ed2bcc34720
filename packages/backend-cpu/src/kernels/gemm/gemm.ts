import { BackendError, type FloatType, floatTypes, type GemmProblem } from "@backplane/core";
import { wideningKernels } from "../convert/index.js";
import { byFloatType } from "../elements/index.js";
import type { EpilogueParameters } from "../epilogue/index.js";
import type {
  BlasUse,
  CpuMemory,
  CpuOperation,
  Features,
  KernelGroup,
  Launch,
  PlanContext,
} from "../kernel.js";
import { fillBytes } from "../memory/index.js";
import { tileColumns } from "../tile/index.js";
import { BlockPlanner } from "./blocks.js";
import { probeKernel } from "./choose.js";
import { expectGemm, settleGemm } from "./device.js";
import { planDirect, suitsDirect } from "./direct.js";
import { directKernel } from "./direct.wasm.js";
import { planEpilogue, zeroProduct } from "./epilogue.js";
import { finishKernels } from "./finish.js";
import { type GemmKernels, gemmKernels } from "./gemm.wasm.js";
import { combineKernels } from "./parts.js";
import { planScale, scaleKernels } from "./scale.js";
import { planSkinny } from "./skinny.js";
import { skinnyKernels } from "./skinny.wasm.js";
import { planSmall } from "./small.js";
import { planStrips } from "./strips.js";
import { blasName, blasUse, fittingGemmVariants, type GemmVariant, gemmVariants } from "./variants.js";

type Problem = GemmProblem<CpuMemory>;

const kernelTable: ReadonlyMap<string, Readonly<Record<FloatType, GemmKernels>>> = new Map(
  gemmVariants.map(({ name, tile, requires }) => [
    name,
    byFloatType((dtype) => gemmKernels(tile, dtype, requires)),
  ]),
);

/**
 * gemm and batchedGemm. Blocked and packed as in Goto and van de Geijn, "Anatomy of high-performance matrix
 * multiplication" (ACM TOMS 34, 2008). C is computed in blocks. For each block, and for each stretch of 512
 * of k, one command packs the block of op(B) into panels and the next multiplies it; the chunks of the second
 * pack their rows of op(A) themselves. After packing, transposition, leading dimensions and f16 no longer
 * matter.
 *
 * A small B times more than a few rows is packed whole by each chunk, which reads A in place (direct.ts). Otherwise up to 32
 * rows need no packing (skinny.ts), and small problems take one command (small.ts). Up to 256 rows are computed in strips whose
 * chunks pack their own columns of op(B) (strips.ts). The order in which the products of an element are summed depends on the
 * problem alone, so results do not depend on the number of workers. blas.ts says which problems a native library computes instead.
 *
 * If `features` is given, it has only those kernels among which there is a choice.
 */
export function gemmOperation(forced?: string, features?: Features): CpuOperation<Problem> {
  const forcedTile = forced === blasName ? undefined : forced;
  /** That of the last context. Not the context itself: it holds the memory of its device. */
  let chosen: Choice | undefined;
  const kernels: KernelGroup[] = Object.values(finishKernels).filter((kernel) => kernel !== undefined);
  kernels.push(...wideningKernels, fillBytes, ...Object.values(scaleKernels));
  for (const byStorage of Object.values(skinnyKernels)) kernels.push(...Object.values(byStorage));
  kernels.push(directKernel, ...Object.values(combineKernels));
  for (const variant of features ? fittingGemmVariants(features, forced) : gemmVariants) {
    const { f32, f16 } = gemmKernelsOf(variant);
    kernels.push([...Object.values(f32), probeKernel(variant)], Object.values(f16));
  }
  return {
    supports: [{ dtype: floatTypes, bias: true, activation: true }],
    kernels,
    plan(problem, context) {
      const { features } = context;
      const name = forcedTile ?? context.variants?.gemm;
      if (chosen?.features !== features || chosen.name !== name) {
        const variant = variantOf(features, name);
        const direct = forcedTile === undefined && variant.tile.columns === tileColumns;
        chosen = { features, name, variant, direct };
      }
      return planGemm(problem, context, chosen, blasUse(features, forced));
    },
  };
}

/** What an operation has chosen for the features of a device, and the variant that `init` has settled on. */
interface Choice {
  readonly features: Features;
  readonly name: string | undefined;
  readonly variant: GemmVariant;
  /**
   * Whether the kernel of direct.ts, whose tile is always the same, may stand in for the variant: not for one that somebody
   * has forced, nor for wider tiles, which are chosen where they are much faster.
   */
  readonly direct: boolean;
}

export const gemm: CpuOperation<Problem> = {
  ...gemmOperation(),
  variants: {
    names: [blasName, ...gemmVariants.map(({ name }) => name)],
    limited: (features, forced) => gemmOperation(forced, features),
    expect: expectGemm,
    settle: settleGemm,
  },
};

function variantOf(features: Features, name: string | undefined): GemmVariant {
  const [variant] = fittingGemmVariants(features, name);
  if (variant === undefined)
    throw new BackendError("UNSUPPORTED", `gemm: variant ${name} does not run on this engine`);
  return variant;
}

/** The kernels of a variant. */
export function gemmKernelsOf({ name }: GemmVariant): Readonly<Record<FloatType, GemmKernels>> {
  return kernelTable.get(name)!;
}

function planGemm(given: Problem, context: PlanContext, choice: Choice, blas: BlasUse): readonly Launch[] {
  const isPlain = given.bias === undefined && given.activation === undefined;
  if (given.k === 0 && isPlain) return [planScale(given)];
  if (given.k === 0) return planEpilogueOnly(given, context, choice);
  const merged = mergeBatch(given);
  const problem = turnColumn(merged);
  const { nativeProducts } = context;
  if (nativeProducts?.computes(problem, blas)) {
    const product = nativeProducts.plan(problem, context);
    return isPlain ? [product] : [product, ...planEpilogueOnly({ ...given, beta: 1 }, context, choice)];
  }
  const { parameters, launches } = planEpilogue(merged, context);
  // The only column of a turned problem has one bias for all.
  const epilogue = problem === merged ? parameters : { ...parameters, biasStep: 0 };
  const product = planProduct(problem, context, choice, epilogue);
  return launches.length === 0 ? product : [...launches, ...product];
}

function planProduct(
  problem: Problem,
  context: PlanContext,
  choice: Choice,
  epilogue: EpilogueParameters,
): readonly Launch[] {
  const { variant, direct } = choice;
  const { tile } = variant;
  const kernels = gemmKernelsOf(variant)[problem.dtype];
  // A problem with a small B goes from here to others that sum alike: neither workers nor variants change a bit.
  const suits = suitsDirect(problem);
  const inPlace = suits && direct ? planDirect(problem, context, epilogue) : undefined;
  if (inPlace !== undefined) return [inPlace];
  const skinny = suits ? undefined : planSkinny(problem, context, epilogue);
  if (skinny !== undefined) return skinny;
  const small = planSmall(problem, kernels, tile, context, epilogue);
  if (small !== undefined) return [small];
  const strips = planStrips(problem, kernels, tile, context, epilogue);
  return strips ?? new BlockPlanner(problem, kernels, tile, context, epilogue).plan();
}

/** C = activation(beta * C + bias). */
function planEpilogueOnly(given: Problem, context: PlanContext, choice: Choice): readonly Launch[] {
  const { problem, launch } = zeroProduct(given, context);
  return [launch, ...planGemm(problem, context, choice, "never")];
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
