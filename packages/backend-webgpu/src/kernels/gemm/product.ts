import type { GemmProblem } from "@backplane/core";
import { floatLayouts, type Program } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { matrixUnits } from "../units.js";
import { directProgram } from "./direct.wgsl.js";
import { tiledProgram } from "./gemm.wgsl.js";
import { type KeptChoice, programFor } from "./kept.js";
import { mostTurned, turnedPieces } from "./pieces.js";
import type { ResultForm } from "./results.wgsl.js";
import { rowProgram } from "./row.wgsl.js";
import type { AlignedShape } from "./shape.js";
import { streamedProgram } from "./streamed.wgsl.js";
import { thinProgram, thinSpan, thinVectors } from "./thin.wgsl.js";
import { turnedOperand } from "./turned.js";
import {
  type DirectVariant,
  type GemmVariant,
  hasThinVector,
  type MatrixVariant,
  type PackedVariant,
  type RowVariant,
  type SplitVariant,
  type StreamedVariant,
  type ThinVariant,
  type TiledVariant,
} from "./variants.js";

type Problem = GemmProblem<DeviceMemory>;

/** A problem with all that follows from its sizes and the places of its operands. */
export interface ShapedProblem {
  readonly problem: Problem;
  readonly shape: AlignedShape;
  readonly kept: KeptChoice;
}

/**
 * Enqueues the sums over parts of k of length `partDepth`, with a variant that takes the operands as they are.
 * Sums over all of k are finished as `form` says. Others are plain ones: alpha, beta and C are applied when they
 * are combined.
 */
export function enqueueProduct(
  context: KernelContext,
  shaped: ShapedProblem,
  variant: Exclude<GemmVariant, PackedVariant>,
  partDepth: number,
  results: BufferRegion,
  form: ResultForm,
): void {
  if (isBlocked(variant)) blocked(context, shaped, variant, partDepth, results, form);
  else if (variant.kind === "thin") thin(context, shaped, variant, partDepth, results, form);
  else if (variant.kind === "row") row(context, shaped, variant, results, form);
  else if (variant.kind === "direct") direct(context, shaped, variant, results, form);
  else split(context, shaped, variant, results, form);
}

type BlockedVariant = TiledVariant | StreamedVariant | MatrixVariant;

/** Whether results are stored a quad at a time. */
export function storesQuads(variant: GemmVariant): boolean {
  return isBlocked(variant) || variant.kind === "row";
}

/** Whether workgroups compute tiles of rows and columns. */
function isBlocked(variant: GemmVariant): variant is BlockedVariant {
  return variant.kind === "tiled" || variant.kind === "streamed" || variant.kind === "matrices";
}

/** Returns the operands and the result's bindings: C itself, or scratch and C if it is read, and the bias. */
export function withResults(
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

function blocked(
  context: KernelContext,
  shaped: ShapedProblem,
  variant: BlockedVariant,
  partDepth: number,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { problem, shape } = shaped;
  const { tile, kind } = variant;
  // Pieces of a product write parts of C, and nothing else is copied.
  const mayBeCut = form.target === "matrix" && shape.eightsA && shape.eightsB;
  const most = mostTurned(context.features);
  const turned = kind === "matrices" ? turnedOperand(shape, tile, most, mayBeCut) : undefined;
  if (turned === undefined || !mayBeCut) {
    enqueueBlocked(context, shaped, variant, partDepth, results, form, turned);
    return;
  }
  let room: BufferRegion | undefined;
  for (const piece of turnedPieces(problem, turned, Math.max(tile.rows, tile.columns), most)) {
    const part = { ...shaped, problem: piece };
    room = enqueueBlocked(context, part, variant, piece.k, piece.c, form, turned, room);
  }
}

/** Returns the copy of the operand that is `turned`, if any. That lies in `room`, if given. */
// Here and below parameters are written out, as spreading objects takes longer than all the rest of a call.
function enqueueBlocked(
  context: KernelContext,
  shaped: ShapedProblem,
  variant: BlockedVariant,
  partDepth: number,
  results: BufferRegion,
  form: ResultForm,
  turned?: "a" | "b",
  room?: BufferRegion,
): BufferRegion | undefined {
  const { problem, shape } = shaped;
  const { m, n, k, batch, a, b } = problem;
  const isPart = partDepth < k;
  const { tile, kind } = variant;
  const copies = turned !== undefined || (kind === "matrices" && !shape.wholeEights);
  const copy = (name: "a" | "b") =>
    copies ? matrixUnits.get().inUnits(context, problem, shape, name, turned === name, room) : undefined;
  const left = copy("a");
  const right = copy("b");
  const make = (): Program => blockedProgram(shaped, variant, form, turned);
  context.dispatch(
    // The text for matrix units depends on beta, too.
    kind === "matrices" ? make() : programFor(shaped.kept, form, make),
    withResults({ a: left?.region ?? a, b: right?.region ?? b }, problem, results, form),
    {
      m,
      n,
      k,
      batch,
      alpha: isPart ? 1 : problem.alpha,
      beta: isPart ? 0 : problem.beta,
      c_pitch: problem.ldc,
      c_step: problem.strideC,
      part_depth: partDepth,
      a_pitch: left?.ld ?? problem.lda,
      a_step: left?.step ?? problem.strideA,
      b_pitch: right?.ld ?? problem.ldb,
      b_step: right?.step ?? problem.strideB,
    },
    Math.ceil(k / partDepth) * batch * Math.ceil(m / tile.rows) * Math.ceil(n / tile.columns),
  );
  return turned === "a" ? left?.region : right?.region;
}

/** The form is written out: entries that it lacks must be absent (see `memoized`). */
function blockedProgram(
  { problem, shape }: ShapedProblem,
  variant: BlockedVariant,
  { dtype, target, readsC, bias, activation }: ResultForm,
  turned: "a" | "b" | undefined,
): Program {
  const { vectorA, vectorB } = shape;
  const transA = shape.transA !== (turned === "a");
  const transB = shape.transB !== (turned === "b");
  const vectorC = hasQuads(problem, shape, target, readsC);
  if (variant.kind === "matrices") {
    const form = { dtype, target, readsC, bias, activation, transA, transB, vectorC };
    // Quads of C are not read for beta = 0.
    return matrixUnits
      .get()
      .matrixProgram(variant.tile, target === "matrix" ? { ...form, overwritesC: problem.beta === 0 } : form);
  }
  const quads = { dtype, target, readsC, transA, transB, vectorA, vectorB, vectorC, bias, activation };
  return variant.kind === "tiled" ? tiledProgram(variant.tile, quads) : streamedProgram(variant.tile, quads);
}

/** Whether results are whole quads where they are stored. Elements of scratch may have any layout. */
function hasQuads(
  { n }: Problem,
  { vectorC }: AlignedShape,
  target: ResultForm["target"],
  readsC: boolean,
): boolean {
  return target === "matrix" ? vectorC : !readsC && n % 4 === 0;
}

function row(
  context: KernelContext,
  { problem, shape }: ShapedProblem,
  { tile }: RowVariant,
  results: BufferRegion,
  { dtype, target, readsC, bias, activation }: ResultForm,
): void {
  const { m, n, k, batch, a, b, alpha, beta, ldc, ldb, strideA, strideB, strideC } = problem;
  const { perBlock } = floatLayouts[dtype];
  const vectorC = hasQuads(problem, shape, target, readsC);
  const form = { dtype, target, readsC, bias, activation, vectorC };
  context.dispatch(
    rowProgram(tile, form),
    withResults({ a, b }, problem, results, form),
    {
      ...{ m, n, alpha, beta, c_pitch: ldc, c_step: strideC },
      units: k / perBlock,
      b_pitch: ldb / perBlock,
      a_step: strideA / perBlock,
      b_step: strideB / perBlock,
      batch,
    },
    batch * Math.ceil(n / tile.columns),
  );
}

function split(
  context: KernelContext,
  { problem, shape }: ShapedProblem,
  variant: SplitVariant,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, alpha, beta, ldc: c_pitch, strideC: c_step } = problem;
  const vectorForm = shape.vectorC ? { vectorC: true, overwritesC: beta === 0 } : {};
  const regions = withResults({}, problem, results, form);
  const parameters = { m, n, alpha, beta, c_pitch, c_step };
  matrixUnits
    .get()
    .enqueueSplit(context, problem, shape, variant, { ...form, ...vectorForm }, regions, parameters);
}

function direct(
  context: KernelContext,
  { problem }: ShapedProblem,
  { tile }: DirectVariant,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, k, batch, lda, ldb, transA, transB, a, b } = problem;
  context.dispatch(
    directProgram(tile, form),
    withResults({ a, b }, problem, results, form),
    {
      m,
      n,
      k,
      batch,
      alpha: problem.alpha,
      beta: problem.beta,
      c_pitch: problem.ldc,
      c_step: problem.strideC,
      a_row: transA ? 1 : lda,
      a_depth: transA ? lda : 1,
      a_step: problem.strideA,
      b_column: transB ? ldb : 1,
      b_depth: transB ? 1 : ldb,
      b_step: problem.strideB,
    },
    batch * Math.ceil(m / tile.threadRows) * Math.ceil(n / (tile.threadColumns * tile.lanes)),
  );
}

function thin(
  context: KernelContext,
  { problem, shape, kept }: ShapedProblem,
  { wide, contiguousDepth, tile }: ThinVariant,
  partDepth: number,
  results: BufferRegion,
  form: ResultForm,
): void {
  const { m, n, k, batch, lda, ldb, strideA, strideB, a, b } = problem;
  const isPart = partDepth < k;
  // The thin operand is A, with rows as its vectors, or B, with columns.
  const isB = wide === "b";
  const places = isB ? n : m;
  const vectors = isB ? m : n;
  const vector = isB ? shape.vectorB : shape.vectorA;
  const make = (): Program => {
    const { dtype, target, readsC, bias, activation } = form;
    return thinProgram(tile, {
      ...{ dtype, target, readsC, bias, activation, wide, contiguousDepth, vector },
      vectors: thinVectors(vectors),
      thinVector: hasThinVector(shape, wide),
    });
  };
  const thinLd = isB ? lda : ldb;
  const vectorsAreRows = isB ? !problem.transA : problem.transB;
  context.dispatch(
    programFor(kept, form, make),
    withResults({ wide: isB ? b : a, thin: isB ? a : b }, problem, results, form),
    {
      m,
      n,
      k,
      batch,
      alpha: isPart ? 1 : problem.alpha,
      beta: isPart ? 0 : problem.beta,
      c_pitch: problem.ldc,
      c_step: problem.strideC,
      part_depth: partDepth,
      places,
      vectors,
      wide_pitch: isB ? ldb : lda,
      wide_step: isB ? strideB : strideA,
      thin_pitch: vectorsAreRows ? thinLd : 1,
      thin_depth: vectorsAreRows ? 1 : thinLd,
      thin_step: isB ? strideA : strideB,
    },
    Math.ceil(k / partDepth) * batch * Math.ceil(places / thinSpan(tile, { contiguousDepth, vector })),
  );
}
