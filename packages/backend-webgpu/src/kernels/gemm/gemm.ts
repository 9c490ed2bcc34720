import type { GemmProblem } from "@backplane/core";
import type { Program } from "../../program/index.js";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { storeHalves } from "../halves.js";
import { combineLanes, combineProgram } from "./combine.wgsl.js";
import { directProgram } from "./direct.wgsl.js";
import { tiledProgram } from "./gemm.wgsl.js";
import { matrixProgram } from "./matrices.wgsl.js";
import { enqueuePacked, packedPitch } from "./packed.js";
import type { ResultForm } from "./results.wgsl.js";
import { type GemmChoice, selectGemm } from "./select.js";
import { type GemmShape, isVector, shapeOf } from "./shape.js";
import { enqueueSplit } from "./split/split.js";
import { inUnits } from "./stored.js";
import { streamedProgram } from "./streamed.wgsl.js";
import { type ThinForm, thinProgram, thinSpan, thinVectors } from "./thin.wgsl.js";
import {
  type GemmVariant,
  hasThinVector,
  type MatrixVariant,
  type PackedVariant,
  type StreamedVariant,
  type TiledVariant,
} from "./variants.js";

type Problem = GemmProblem<DeviceMemory>;

/** gemm and batchedGemm; `forced` names a variant to take wherever it fits (see `gemmVariants`). */
export function runGemm(context: KernelContext, problem: Problem, forced?: string): void {
  const { dtype, c } = problem;
  const planned = plan(context, problem, forced);
  const { choice, vectorC } = planned;
  // Halves are written one quad at a time, or not by the kernel itself: two share a word.
  const writesQuads =
    choice !== undefined && isBlocked(choice.variant) && choice.partDepth >= problem.k && vectorC;
  if (dtype === "f16" && !writesQuads) runInHalves(context, planned);
  else enqueue(context, planned, c, finished({ dtype, target: "matrix", readsC: false }, problem));
}

/** Computes f32 results in scratch and rounds them into C. */
function runInHalves(context: KernelContext, planned: Plan): void {
  const { problem } = planned;
  const { m, n, batch, c, ldc } = problem;
  const results = context.scratch(4 * batch * m * n);
  const form = finished({ dtype: "f16", target: "scratch", readsC: problem.beta !== 0 }, problem);
  enqueue(context, planned, results, form);
  const layout = { batch, rows: m, columns: n, rowStride: ldc };
  storeHalves(context, results, c, batch === 1 ? layout : { ...layout, batchStride: problem.strideC });
}

/** Returns the form with the epilogue of a problem, or the form itself if there is none. */
function finished(form: ResultForm, { bias, activation }: Problem): ResultForm {
  if (bias === undefined && activation === undefined) return form;
  const { dtype, target, readsC } = form;
  return { dtype, target, readsC, bias: bias !== undefined, activation };
}

/** Enqueues commands that compute `results` as `form` says; f32 results of f16 problems still await rounding. */
function enqueue(context: KernelContext, planned: Plan, results: BufferRegion, form: ResultForm): void {
  const { problem, choice } = planned;
  const { m, n, k, batch } = problem;
  if (choice === undefined) {
    combine(context, problem, results, form, context.scratch(16), n, 0);
    return;
  }
  const { variant, partDepth } = choice;
  if (variant.kind === "packed") {
    packed(context, planned, variant, results, form);
    return;
  }
  const parts = Math.ceil(k / partDepth);
  if (parts === 1) {
    product(context, planned, variant, partDepth, results, form);
    return;
  }
  const sums = context.scratch(4 * parts * batch * m * n);
  const partForm: ResultForm = { dtype: problem.dtype, target: "scratch", readsC: false };
  product(context, planned, variant, partDepth, sums, partForm);
  combine(context, problem, results, form, sums, n, parts);
}

/**
 * Sums straight to the place of the results, if nothing else is to do and they are whole quads; otherwise
 * through scratch.
 */
function packed(
  context: KernelContext,
  { problem, shape, vectorC }: Plan,
  { tile }: PackedVariant,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, batch, alpha, beta, bias, activation } = problem;
  const isSum = alpha === 1 && beta === 0 && bias === undefined && activation === undefined;
  const isMatrix = form.target === "matrix";
  if (isSum && (isMatrix ? vectorC : n % 4 === 0)) {
    const [pitch, step] = isMatrix ? [problem.ldc, problem.strideC] : [n, m * n];
    enqueuePacked(context, problem, shape, tile, results, pitch, step);
    return;
  }
  const pitch = packedPitch(n);
  const sums = context.scratch(4 * batch * m * pitch);
  enqueuePacked(context, problem, shape, tile, sums, pitch, m * pitch);
  combine(context, problem, results, form, sums, pitch, 1);
}

/** A problem with the facts derived from it, once for each call. */
interface Plan {
  readonly problem: Problem;
  readonly shape: GemmShape;
  /** Whether C can be written four elements at a time. */
  readonly vectorC: boolean;
  /** The choice of a kernel; undefined if there is nothing to multiply. */
  readonly choice: GemmChoice | undefined;
}

function plan({ features }: KernelContext, problem: Problem, forced: string | undefined): Plan {
  const vectorC = isVector(problem, "c", 4);
  const shape = shapeOf(problem, vectorC);
  return {
    problem,
    shape,
    vectorC,
    choice: problem.k === 0 ? undefined : selectGemm(shape, features, forced),
  };
}

/** The operands and the result's bindings: C itself, or scratch and C if it is read, and the bias. */
function withResults(
  regions: Record<string, BufferRegion>,
  problem: Problem,
  results: BufferRegion,
  { target, readsC, bias }: ResultForm,
): Record<string, BufferRegion> {
  if (target === "matrix") regions.c = results;
  else regions.results = results;
  if (target === "scratch" && readsC) regions.c = problem.c;
  if (bias) regions.bias = problem.bias!;
  return regions;
}

// Here and below parameters are written out, as spreading objects takes longer than all the rest of a call.
function combine(
  context: KernelContext,
  problem: Problem,
  results: BufferRegion,
  form: ResultForm,
  sums: BufferRegion,
  sumsPitch: number,
  parts: number,
): void {
  const { m, n, batch, alpha, beta, ldc, strideC } = problem;
  const lanes = combineLanes(parts);
  context.dispatch(
    combineProgram(form, lanes),
    withResults({ sums }, problem, results, form),
    { m, n, alpha, beta, c_pitch: ldc, c_step: strideC, sums_pitch: sumsPitch, parts, batch },
    Math.ceil((batch * m * n) / (WORKGROUP_SIZE / lanes)),
  );
}

/** Sums over parts of k are plain ones: alpha, beta and C are applied when they are combined. */
function product(
  context: KernelContext,
  planned: Plan,
  variant: Exclude<GemmVariant, PackedVariant>,
  partDepth: number,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { problem, shape, vectorC } = planned;
  const { m, n, k, batch, lda, ldb, strideA, strideB, transA, transB, a, b } = problem;
  const { ldc: c_pitch, strideC: c_step } = problem;
  const [alpha, beta] = partDepth < k ? [1, 0] : [problem.alpha, problem.beta];
  const groups = Math.ceil(k / partDepth) * batch;
  if (isBlocked(variant)) {
    const { tile, kind } = variant;
    const needsUnits = kind === "matrices" && !shape.wholeEights;
    const left = needsUnits ? inUnits(context, problem, "a") : undefined;
    const right = needsUnits ? inUnits(context, problem, "b") : undefined;
    context.dispatch(
      blockedProgram(planned, variant, form),
      withResults({ a: left?.region ?? a, b: right?.region ?? b }, problem, results, form),
      {
        m,
        n,
        k,
        batch,
        alpha,
        beta,
        c_pitch,
        c_step,
        part_depth: partDepth,
        a_pitch: left?.ld ?? lda,
        a_step: left?.step ?? strideA,
        b_pitch: right?.ld ?? ldb,
        b_step: right?.step ?? strideB,
      },
      groups * Math.ceil(m / tile.rows) * Math.ceil(n / tile.columns),
    );
    return;
  }
  if (variant.kind === "split") {
    const vectorForm = vectorC ? { vectorC: true, overwritesC: problem.beta === 0 } : {};
    const split = { ...form, ...vectorForm };
    const regions = withResults({}, problem, results, form);
    enqueueSplit(context, problem, shape, variant, split, regions, { m, n, alpha, beta, c_pitch, c_step });
    return;
  }
  if (variant.kind === "direct") {
    const { tile } = variant;
    context.dispatch(
      directProgram(tile, form),
      withResults({ a, b }, problem, results, form),
      {
        m,
        n,
        k,
        batch,
        alpha,
        beta,
        c_pitch,
        c_step,
        a_row: transA ? 1 : lda,
        a_depth: transA ? lda : 1,
        a_step: strideA,
        b_column: transB ? ldb : 1,
        b_depth: transB ? 1 : ldb,
        b_step: strideB,
      },
      batch * Math.ceil(m / tile.threadRows) * Math.ceil(n / (tile.threadColumns * tile.lanes)),
    );
    return;
  }
  const { wide, contiguousDepth, tile } = variant;
  const [places, vectors] = wide === "b" ? [n, m] : [m, n];
  const { dtype, target, readsC, bias, activation } = form;
  const thinForm: ThinForm = {
    dtype,
    target,
    readsC,
    bias,
    activation,
    wide,
    contiguousDepth,
    vectors: thinVectors(vectors),
    vector: wide === "b" ? shape.vectorB : shape.vectorA,
    thinVector: hasThinVector(shape, wide),
  };
  // The thin operand is A, with rows as its vectors, or B, with columns.
  const isB = wide === "b";
  const thinLd = isB ? lda : ldb;
  const vectorsAreRows = isB ? !transA : transB;
  context.dispatch(
    thinProgram(tile, thinForm),
    withResults({ wide: isB ? b : a, thin: isB ? a : b }, problem, results, form),
    {
      m,
      n,
      k,
      batch,
      alpha,
      beta,
      c_pitch,
      c_step,
      part_depth: partDepth,
      places,
      vectors,
      wide_pitch: isB ? ldb : lda,
      wide_step: isB ? strideB : strideA,
      thin_pitch: vectorsAreRows ? thinLd : 1,
      thin_depth: vectorsAreRows ? 1 : thinLd,
      thin_step: isB ? strideA : strideB,
    },
    groups * Math.ceil(places / thinSpan(tile, thinForm)),
  );
}

type BlockedVariant = TiledVariant | StreamedVariant | MatrixVariant;

/** Whether workgroups compute tiles of rows and columns, and store them a quad at a time. */
function isBlocked(variant: GemmVariant): variant is BlockedVariant {
  return variant.kind === "tiled" || variant.kind === "streamed" || variant.kind === "matrices";
}

/** The form is written out: entries that it lacks must be absent (see `memoized`). */
function blockedProgram(
  { problem, shape, vectorC: isVectorC }: Plan,
  variant: BlockedVariant,
  { dtype, target, readsC, bias, activation }: ResultForm,
): Program {
  const { transA, transB, vectorA, vectorB } = shape;
  // Elements of scratch may have any layout.
  const vectorC = target === "matrix" ? isVectorC : !readsC && problem.n % 4 === 0;
  if (variant.kind === "matrices") {
    const form = { dtype, target, readsC, bias, activation, transA, transB, vectorC };
    // These write C if quads of it are whole (otherwise `runInHalves` does), and do not read it for beta = 0.
    return matrixProgram(
      variant.tile,
      target === "matrix" ? { ...form, overwritesC: problem.beta === 0 } : form,
    );
  }
  const quads = { dtype, target, readsC, transA, transB, vectorA, vectorB, vectorC, bias, activation };
  return variant.kind === "tiled" ? tiledProgram(variant.tile, quads) : streamedProgram(variant.tile, quads);
}
