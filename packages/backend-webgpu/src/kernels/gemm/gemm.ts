import type { GemmProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { type StoreRounded, storeRounded } from "../halves.js";
import { combineLanes, combineProgram } from "./combine.wgsl.js";
import { packedPitch } from "./copies.js";
import { choiceFor, type KeptChoice } from "./kept.js";
import { enqueuePacked } from "./packed.js";
import { enqueueProduct, type ShapedProblem, storesQuads, withResults } from "./product.js";
import type { ResultForm } from "./results.wgsl.js";
import { type AlignedShape, shapeOf } from "./shape.js";
import type { PackedVariant } from "./variants.js";

type Problem = GemmProblem<DeviceMemory>;

/** What is found out about a problem, once for each call. */
interface Plan {
  readonly problem: Problem;
  readonly shape: AlignedShape;
  /** The choice of a kernel; undefined if there is nothing to multiply. */
  readonly kept: KeptChoice | undefined;
}

function plan({ features }: KernelContext, problem: Problem, forced: string | undefined): Plan {
  const shape = shapeOf(problem);
  return { problem, shape, kept: problem.k === 0 ? undefined : choiceFor(shape, features, forced) };
}

/** gemm and batchedGemm; `forced` names a variant to take wherever it fits (see `gemmVariants`). */
export function runGemm(context: KernelContext, problem: Problem, forced?: string): void {
  const { dtype, c } = problem;
  const planned = plan(context, problem, forced);
  const { kept, shape } = planned;
  const choice = kept?.choice;
  // Halves are written one quad at a time, or not by the kernel itself: two share a word. On matrix units there is f16.
  const writesC =
    choice !== undefined &&
    choice.partDepth >= problem.k &&
    (choice.variant.kind === "matrices" || (storesQuads(choice.variant) && shape.vectorC));
  const store = writesC ? undefined : storeRounded[dtype];
  if (store !== undefined) runRounded(context, planned, store);
  else enqueue(context, planned, c, finished({ dtype, target: "matrix", readsC: false }, problem));
}

/** Computes f32 results in scratch and rounds them into C. */
function runRounded(context: KernelContext, planned: Plan, store: StoreRounded): void {
  const { problem } = planned;
  const { dtype, m, n, batch, c, ldc } = problem;
  const results = context.scratch(4 * batch * m * n);
  const form = finished({ dtype, target: "scratch", readsC: problem.beta !== 0 }, problem);
  enqueue(context, planned, results, form);
  const layout = { batch, rows: m, columns: n, rowStride: ldc };
  store(context, results, c, batch === 1 ? layout : { ...layout, batchStride: problem.strideC });
}

/** Returns the form with the epilogue of a problem, or the form itself if there is none. */
function finished(form: ResultForm, { bias, activation }: Problem): ResultForm {
  if (bias === undefined && activation === undefined) return form;
  const { dtype, target, readsC } = form;
  return { dtype, target, readsC, bias: bias !== undefined, activation };
}

/** Enqueues commands that compute `results` as `form` says; f32 results of other types still await rounding. */
function enqueue(context: KernelContext, planned: Plan, results: BufferRegion, form: ResultForm): void {
  const { problem, shape, kept } = planned;
  const { m, n, k, batch } = problem;
  if (kept === undefined) {
    combine(context, problem, results, form, context.scratch(16), n, 0);
    return;
  }
  const { variant, partDepth } = kept.choice;
  const shaped: ShapedProblem = { problem, shape, kept };
  if (variant.kind === "packed") {
    packed(context, planned, variant, results, form);
    return;
  }
  const parts = Math.ceil(k / partDepth);
  if (parts === 1) {
    enqueueProduct(context, shaped, variant, partDepth, results, form);
    return;
  }
  const sums = context.scratch(4 * parts * batch * m * n);
  const partForm: ResultForm = { dtype: problem.dtype, target: "scratch", readsC: false };
  enqueueProduct(context, shaped, variant, partDepth, sums, partForm);
  combine(context, problem, results, form, sums, n, parts);
}

/**
 * Sums straight to the place of the results, if nothing else is to do and they are whole quads; otherwise
 * through scratch.
 */
function packed(
  context: KernelContext,
  { problem, shape }: Plan,
  { tile }: PackedVariant,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, batch, alpha, beta, bias, activation } = problem;
  const isSum = alpha === 1 && beta === 0 && bias === undefined && activation === undefined;
  const isMatrix = form.target === "matrix";
  if (isSum && (isMatrix ? shape.vectorC : n % 4 === 0)) {
    const [pitch, step] = isMatrix ? [problem.ldc, problem.strideC] : [n, m * n];
    enqueuePacked(context, problem, shape, tile, results, pitch, step);
    return;
  }
  const pitch = packedPitch(n);
  const sums = context.scratch(4 * batch * m * pitch);
  enqueuePacked(context, problem, shape, tile, sums, pitch, m * pitch);
  combine(context, problem, results, form, sums, pitch, 1);
}

// Parameters are written out, as spreading objects takes longer than all the rest of a call.
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
