import { type AttentionGradientProblem, contiguousGradientSteps, dtypeBytes } from "@backplane/core";
import type { Program } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { hidingOf, hidingValues, outputColumns } from "../attention/index.js";
import { copy } from "../copy/index.js";
import { storeRounded } from "../halves.js";
import { scratchBytes } from "../segments/index.js";
import type { ProductTile } from "../tiles/index.js";
import { selectVariant } from "../variant.js";
import { gradientProgram, KEPT_KEYS } from "./gradient.wgsl.js";
import { gradientMatrixProgram } from "./matrices.wgsl.js";
import { queriesProgram } from "./queries.wgsl.js";
import type { Side } from "./sides.wgsl.js";
import { STATISTICS_ROWS, statisticsProgram } from "./statistics.wgsl.js";
import { type GradientShape, type GradientVariant, gradientVariants, keptKeys } from "./variants.js";

type Problem = AttentionGradientProblem<DeviceMemory>;

/** attentionGradient; `forced` names a variant to take (see `gradientVariants`). */
export function runAttentionGradient(context: KernelContext, problem: Problem, forced?: string): void {
  if (problem.rows !== undefined) {
    const { before, gradient, after } = contiguousGradientSteps(problem, (bytes) => context.scratch(bytes));
    for (const part of before) copy.run(context, part);
    runAttentionGradient(context, gradient, forced);
    for (const part of after) copy.run(context, part);
    return;
  }
  if (fillEmpty(context, problem)) return;
  const shape = gradientShape(problem);
  const variant = selectVariant("attentionGradient", gradientVariants, shape, context.features, forced);
  enqueueGradient(context, problem, shape, variant);
}

/** Enqueues a problem of the shape with a kernel that fits it. */
export function enqueueGradient(
  context: KernelContext,
  problem: Problem,
  shape: GradientShape,
  variant: GradientVariant,
): void {
  const vector = isVector(problem, 4);
  const statistics = statisticsOf(context, problem, vector);
  const keys = placesFor(context, problem.dtype, vector, [problem.kGradient, problem.vGradient]);
  const queries = placesFor(context, problem.dtype, vector, [problem.qGradient]);
  const pass: Pass = { context, problem, shape, vector, statistics };
  const all = { first: 0, count: shape.matrices };
  if (variant.kind === "tiled" && variant.kept !== undefined) {
    const kept = keptKeys(shape, variant);
    const bytes = kept * dtypeBytes.f32 * shape.rows;
    const most = Math.max(1, Math.floor(scratchBytes(context.features) / bytes));
    const changes = context.scratch(bytes * Math.min(most, shape.matrices));
    for (let first = 0; first < shape.matrices; first += most) {
      const some = { first, count: Math.min(most, shape.matrices - first) };
      enqueueSide(pass, variant, "keys", keys.places, some, changes);
      enqueueQueries(pass, variant.kept, queries.places, some, changes, kept);
    }
  } else {
    enqueueSide(pass, variant, "keys", keys.places, all);
    enqueueSide(pass, variant, "queries", queries.places, all);
  }
  keys.finish();
  queries.finish();
}

/** What all dispatches of one gradient share. */
interface Pass {
  readonly context: KernelContext;
  readonly problem: Problem;
  readonly shape: GradientShape;
  readonly vector: boolean;
  /** See `statisticsProgram`. */
  readonly statistics: BufferRegion;
}

/** Some of the matrices, that is, of the key heads of all of the batch. */
interface Matrices {
  readonly first: number;
  readonly count: number;
}

/** Fills gradients with zeros if nothing adds to them. Returns whether that was all. */
export function fillEmpty(context: Pick<KernelContext, "fill">, problem: Problem): boolean {
  const { heads, queryLength, keyLength, qGradient, kGradient, vGradient } = problem;
  const isWithoutQueries = heads * queryLength === 0;
  if (keyLength > 0 && !isWithoutQueries) return false;
  for (const region of isWithoutQueries ? [kGradient, vGradient] : [qGradient]) context.fill(region, 0);
  return true;
}

export function gradientShape(problem: Problem): GradientShape {
  const { dtype, batch, heads, kvHeads, queryLength, keyLength, headSize } = problem;
  const rows = (heads / kvHeads) * queryLength;
  const wholeEights = isVector(problem, 8);
  return { dtype, matrices: batch * kvHeads, rows, keyLength, headSize, wholeEights };
}

/** Whether everything can be read and written four elements at a time, or eight: 16 bytes at most. */
function isVector(problem: Problem, elements: 4 | 8): boolean {
  const { dtype, headSize, q, k, v, out, outGradient, qGradient, kGradient, vGradient } = problem;
  const unit = Math.min(16, elements * dtypeBytes[dtype]);
  const all = [q, k, v, out, outGradient, qGradient, kGradient, vGradient];
  return headSize % elements === 0 && all.every(({ byteOffset }) => byteOffset % unit === 0);
}

type StatisticsOperands = Pick<Problem, "dtype" | "headSize" | "out" | "outGradient" | "logSumExp">;

/** Scratch with logSumExp and D of each query. */
function statisticsOf(context: KernelContext, operands: StatisticsOperands, vector: boolean): BufferRegion {
  const statistics = context.scratch(2 * operands.logSumExp.byteLength);
  enqueueStatistics(context, operands, statistics, vector, false);
  return statistics;
}

/** `continues`: of further elements of the same heads. */
export function enqueueStatistics(
  context: KernelContext,
  { dtype, headSize, out, outGradient, logSumExp }: StatisticsOperands,
  statistics: BufferRegion,
  vector: boolean,
  continues: boolean,
): void {
  const rows = logSumExp.byteLength / dtypeBytes.f32;
  context.dispatch(
    statisticsProgram(dtype, vector),
    { out, g: outGradient, logs: logSumExp, statistics },
    { rows, head_size: headSize, continues: continues ? 1 : 0 },
    Math.ceil(rows / STATISTICS_ROWS),
  );
}

/** Where kernels may write results, and what then brings these to their regions. */
function placesFor(
  context: KernelContext,
  dtype: Problem["dtype"],
  vector: boolean,
  regions: readonly BufferRegion[],
): { readonly places: readonly BufferRegion[]; finish(): void } {
  // Halves are written one quad at a time, or not by the kernel itself: two share a word.
  const store = vector ? undefined : storeRounded[dtype];
  const moves: (() => void)[] = [];
  const taken = new Set<DeviceMemory>();
  const places = regions.map((region) => {
    const elements = region.byteLength / dtypeBytes[dtype];
    if (store !== undefined) {
      const results = context.scratch(4 * elements);
      moves.push(() => store(context, results, region, { batch: 1, rows: 1, columns: elements }));
      return results;
    }
    // No buffer may be bound twice to be written.
    if (taken.has(region.memory)) {
      const results = context.scratch(region.byteLength);
      moves.push(() => context.copy(region, results));
      return results;
    }
    taken.add(region.memory);
    return region;
  });
  return {
    places,
    finish() {
      for (const move of moves) move();
    },
  };
}

/** `changes`: where S is to be left. */
function enqueueSide(
  { context, problem, shape, vector, statistics }: Pass,
  variant: GradientVariant,
  side: Side,
  [first, second]: readonly BufferRegion[],
  matrices: Matrices,
  changes?: BufferRegion,
): void {
  const { headSize, keyLength, queryLength, q, k, v, outGradient, mask } = problem;
  const hiding = hidingOf(problem);
  const regions: Readonly<Record<string, BufferRegion>> = {
    ...{ q, k, v, g: outGradient, statistics, first_results: first! },
    ...(second === undefined ? {} : { second_results: second }),
    ...(mask === undefined ? {} : { mask: mask.region }),
    ...(changes === undefined ? {} : { changes }),
  };
  const { program, groups } = programOf(problem, shape, variant, vector, side, changes !== undefined);
  context.dispatch(
    program,
    regions,
    {
      ...(variant.kind === "tiled" ? { first_matrix: matrices.first } : {}),
      ...{ matrices: matrices.count, rows: shape.rows, query_length: queryLength, key_length: keyLength },
      ...{ head_size: headSize, scale: problem.scale * Math.LOG2E, visible: problem.visible },
      ...(hiding === undefined ? {} : hidingValues(problem)),
    },
    groups * matrices.count,
  );
}

/** The gradients of queries from S, which has so many keys. */
function enqueueQueries(
  { context, problem, shape, vector }: Pass,
  tiles: readonly ProductTile[],
  [first]: readonly BufferRegion[],
  matrices: Matrices,
  changes: BufferRegion,
  keys: number,
): void {
  const { dtype, headSize, keyLength, queryLength, k, scale, visible, oldest } = problem;
  const tile = tiles.find(({ columns }) => columns >= headSize) ?? tiles.at(-1)!;
  context.dispatch(
    queriesProgram(tile, { dtype, vector, window: oldest !== undefined }),
    { changes, k, first_results: first! },
    {
      ...{ first_matrix: matrices.first, matrices: matrices.count, rows: shape.rows },
      ...{ query_length: queryLength, key_length: keyLength, head_size: headSize },
      ...{ strips: keys / KEPT_KEYS, scale, visible },
      ...(oldest === undefined ? {} : { oldest }),
    },
    Math.ceil(shape.rows / tile.rows) * Math.ceil(headSize / tile.columns) * matrices.count,
  );
}

/** The kernel for one side, and its workgroups for each matrix. */
function programOf(
  problem: Problem,
  shape: GradientShape,
  variant: GradientVariant,
  vector: boolean,
  side: Side,
  keeps: boolean,
): { readonly program: Program; readonly groups: number } {
  const { dtype, headSize } = problem;
  const hiding = hidingOf(problem);
  const rows = side === "keys" ? shape.keyLength : shape.rows;
  if (variant.kind === "matrices") {
    const tile = variant.tiles[side];
    const columns = variant.columns.find((count) => count >= headSize)!;
    return {
      program: gradientMatrixProgram(tile, { side, columns, whole: headSize === columns, hiding }),
      groups: Math.ceil(rows / tile.rows),
    };
  }
  const { tile } = variant;
  const possible = outputColumns(tile);
  const columns = possible.find((count) => count >= headSize) ?? possible.at(-1)!;
  return {
    program: gradientProgram(tile, { side, dtype, vector, columns, hiding, keeps }),
    groups: Math.ceil(rows / tile.queries) * Math.ceil(headSize / columns),
  };
}
