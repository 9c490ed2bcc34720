import type { GemmProblem } from "@backplane/core";
import type { BufferRegion, KernelContext, KernelDefinition } from "../../context.js";
import { storeHalves } from "../../halves.js";
import type { DeviceMemory } from "../../memory.js";
import { WORKGROUP_SIZE } from "../../wgsl.js";
import { combineLanes, combineProgram } from "./combine.wgsl.js";
import { directProgram } from "./direct.wgsl.js";
import { tiledProgram } from "./gemm.wgsl.js";
import { matrixProgram } from "./matrices.wgsl.js";
import type { ResultForm } from "./operands.wgsl.js";
import { type GemmChoice, selectGemm } from "./select.js";
import { inUnits, isVector } from "./stored.js";
import { type ThinForm, thinProgram, thinSpan, thinVectors } from "./thin.wgsl.js";
import { type GemmShape, type GemmVariant, hasThinVector } from "./variants.js";

type Problem = GemmProblem<DeviceMemory>;

/** gemm and batchedGemm; `forced` names a variant to take wherever it fits (see `gemmVariants`). */
export function gemmKernel(forced?: string): KernelDefinition<Problem> {
  return {
    dtypes: ["f32", "f16"],
    epilogue: true,
    run: (context, problem) => runGemm(context, problem, forced),
  };
}

export function runGemm(context: KernelContext, problem: Problem, forced?: string): void {
  const { dtype, c } = problem;
  const planned = plan(context, problem, forced);
  const { choice } = planned;
  // Halves are written one quad at a time, or not by the kernel itself: two share a word.
  const writesQuads =
    choice !== undefined &&
    (choice.variant.kind === "tiled" || choice.variant.kind === "matrices") &&
    choice.partDepth >= problem.k &&
    hasVectorC(problem);
  if (dtype === "f16" && !writesQuads) runInHalves(context, problem, planned);
  else enqueue(context, problem, planned, c, finished({ dtype, target: "matrix", readsC: false }, problem));
}

/** Computes f32 results in scratch and rounds them into C. */
function runInHalves(context: KernelContext, problem: Problem, planned: Plan): void {
  const { m, n, batch, c, ldc } = problem;
  const results = context.scratch(4 * batch * m * n);
  const form = finished({ dtype: "f16", target: "scratch", readsC: problem.beta !== 0 }, problem);
  enqueue(context, problem, planned, results, form);
  const layout = { batch, rows: m, columns: n, rowStride: ldc };
  storeHalves(context, results, c, batch === 1 ? layout : { ...layout, batchStride: problem.strideC });
}

/** The form with the epilogue of a problem; itself where there is none. */
function finished(form: ResultForm, { bias, activation }: Problem): ResultForm {
  if (bias === undefined && activation === undefined) return form;
  return {
    ...form,
    ...(bias === undefined ? {} : { bias: true }),
    ...(activation === undefined ? {} : { activation }),
  };
}

/** Enqueues what computes `results` as `form` says; f32 results of f16 problems still await rounding. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  { shape, choice }: Plan,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, k, batch } = problem;
  if (choice === undefined) {
    combine(context, problem, results, form, context.scratch(16), 0);
    return;
  }
  const { variant, partDepth } = choice;
  const parts = Math.ceil(k / partDepth);
  if (parts === 1) {
    product(context, problem, shape, variant, partDepth, results, form);
    return;
  }
  const sums = context.scratch(4 * parts * batch * m * n);
  product(context, { ...problem, alpha: 1, beta: 0 }, shape, variant, partDepth, sums, {
    dtype: problem.dtype,
    target: "scratch",
    readsC: false,
  });
  combine(context, problem, results, form, sums, parts);
}

/** How to compute a problem; nothing is chosen where there is nothing to multiply. */
interface Plan {
  readonly shape: GemmShape;
  readonly choice: GemmChoice | undefined;
}

function plan({ features }: KernelContext, problem: Problem, forced: string | undefined): Plan {
  const shape = shapeOf(problem);
  return { shape, choice: problem.k === 0 ? undefined : selectGemm(shape, features, forced) };
}

/** Whether C can be written four elements at a time. */
function hasVectorC(problem: Problem): boolean {
  return isVector(problem, "c", 4);
}

function shapeOf(problem: Problem): GemmShape {
  const { dtype, m, n, k, batch, transA, transB } = problem;
  return {
    ...{
      dtype,
      m,
      n,
      k,
      batch,
      transA,
      transB,
      vectorA: isVector(problem, "a", 4),
      vectorB: isVector(problem, "b", 4),
    },
    wholeEights:
      dtype === "f16" && isVector(problem, "a", 8) && isVector(problem, "b", 8) && hasVectorC(problem),
  };
}

function resultParameters(problem: Problem) {
  const { m, n, alpha, beta, ldc, strideC } = problem;
  return { m, n, alpha, beta, c_pitch: ldc, c_step: strideC };
}

/** The result's bindings: C itself, or scratch and C where it is read, and the bias. */
function resultRegions(
  problem: Problem,
  results: BufferRegion,
  form: ResultForm,
): Record<string, BufferRegion> {
  const regions: Record<string, BufferRegion> = form.target === "matrix" ? { c: results } : { results };
  if (form.target === "scratch" && form.readsC) regions.c = problem.c;
  if (form.bias) regions.bias = problem.bias!;
  return regions;
}

function combine(
  context: KernelContext,
  problem: Problem,
  results: BufferRegion,
  form: ResultForm,
  sums: BufferRegion,
  parts: number,
): void {
  const { m, n, batch } = problem;
  const lanes = combineLanes(parts);
  context.dispatch(
    combineProgram(form, lanes),
    { sums, ...resultRegions(problem, results, form) },
    { ...resultParameters(problem), parts, batch },
    Math.ceil((batch * m * n) / (WORKGROUP_SIZE / lanes)),
  );
}

function product(
  context: KernelContext,
  problem: Problem,
  shape: GemmShape,
  variant: GemmVariant,
  partDepth: number,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, k, batch, lda, ldb, strideA, strideB, transA, transB, a, b } = problem;
  const groups = Math.ceil(k / partDepth) * batch;
  const regions = resultRegions(problem, results, form);
  const common = { ...resultParameters(problem), k, part_depth: partDepth, batch };
  if (variant.kind === "tiled") {
    const { tile } = variant;
    const { vectorA, vectorB } = shape;
    const vectorC = form.target === "matrix" ? hasVectorC(problem) : !form.readsC && n % 4 === 0;
    context.dispatch(
      tiledProgram(tile, { ...form, transA, transB, vectorA, vectorB, vectorC }),
      { a, b, ...regions },
      { ...common, a_pitch: lda, a_step: strideA, b_pitch: ldb, b_step: strideB },
      groups * Math.ceil(m / tile.rows) * Math.ceil(n / tile.columns),
    );
    return;
  }
  if (variant.kind === "matrices") {
    const { tile } = variant;
    const [left, right] = [inUnits(context, problem, "a"), inUnits(context, problem, "b")];
    // Elements of scratch may lie anyhow, those of C only as they do for `runInHalves` not to be needed.
    const writesC = form.target === "matrix";
    const ends = writesC
      ? { vectorC: true, overwritesC: problem.beta === 0 }
      : { vectorC: !form.readsC && n % 4 === 0 };
    context.dispatch(
      matrixProgram(tile, { ...form, transA, transB, ...ends }),
      { a: left.region, b: right.region, ...regions },
      { ...common, a_pitch: left.ld, a_step: left.step, b_pitch: right.ld, b_step: right.step },
      groups * Math.ceil(m / tile.rows) * Math.ceil(n / tile.columns),
    );
    return;
  }
  if (variant.kind === "direct") {
    const { tile } = variant;
    context.dispatch(
      directProgram(tile, form),
      { a, b, ...regions },
      {
        ...{ ...resultParameters(problem), k, batch, a_step: strideA, b_step: strideB },
        ...(transA ? { a_row: 1, a_depth: lda } : { a_row: lda, a_depth: 1 }),
        ...(transB ? { b_depth: 1, b_column: ldb } : { b_depth: ldb, b_column: 1 }),
      },
      batch * Math.ceil(m / tile.threadRows) * Math.ceil(n / (tile.threadColumns * tile.lanes)),
    );
    return;
  }
  const { wide, contiguousDepth, tile } = variant;
  const [places, vectors] = wide === "b" ? [n, m] : [m, n];
  const thinForm: ThinForm = {
    ...{ ...form, wide, contiguousDepth },
    vectors: thinVectors(vectors),
    vector: wide === "b" ? shape.vectorB : shape.vectorA,
    thinVector: hasThinVector(shape, wide),
  };
  // The thin operand is A, with rows as its vectors, or B, with columns.
  const operands =
    wide === "b"
      ? { wide: b, thin: a, wide_pitch: ldb, wide_step: strideB, thin_step: strideA }
      : { wide: a, thin: b, wide_pitch: lda, wide_step: strideA, thin_step: strideB };
  const thinLd = wide === "b" ? lda : ldb;
  const vectorsAreRows = wide === "b" ? !transA : transB;
  const { wide: wideRegion, thin: thinRegion, ...strides } = operands;
  context.dispatch(
    thinProgram(tile, thinForm),
    { wide: wideRegion, thin: thinRegion, ...regions },
    {
      ...{ ...common, ...strides, places, vectors },
      thin_pitch: vectorsAreRows ? thinLd : 1,
      thin_depth: vectorsAreRows ? 1 : thinLd,
    },
    groups * Math.ceil(places / thinSpan(tile, thinForm)),
  );
}
