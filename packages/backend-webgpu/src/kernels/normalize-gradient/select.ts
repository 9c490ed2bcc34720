import type { FloatType } from "@backplane/core";
import { groupsFor, type LaneCount, planRegisters, type RegisterPlan, type Vector } from "../rows/index.js";

/** Values of each place that an invocation holds: of the inputs, and of the sums of columns. */
const STREAMS = { plain: 2, sums: 4 } as const;

/** Between these, blocks of so many rows or more have sums of their own. f16 has no more than the fewest. */
const LEAST_BLOCKS = 256;
const MOST_BLOCKS = 1024;
const ROWS_PER_BLOCK = 32;

/** A pass with whole rows in registers, in which each workgroup goes over several. */
export interface GradientRegisterPlan extends RegisterPlan {
  /** Rows that each slot of a workgroup does, and how many blocks of rows there are. */
  readonly turns: number;
  readonly blocks: number;
}

/** Shorter rows leave some loads out: each number makes another program to compile. */
const LEAST_VALUES = 4;

/** Returns undefined if rows are too long for registers, or if f16 results of two rows share a word. */
export function planRows(
  dtype: FloatType,
  rows: number,
  size: number,
  offsets: readonly number[],
  withSums: boolean,
  mostBlocks: number,
): GradientRegisterPlan | undefined {
  const extents = { outer: rows, length: size, inner: 1 };
  const plan = planRegisters(dtype, extents, offsets, STREAMS[withSums ? "sums" : "plain"]);
  if (plan === undefined) return undefined;
  const values = Math.max(plan.values, LEAST_VALUES);
  if (!withSums) return { ...plan, values, turns: 1, blocks: plan.workgroups };
  // A workgroup does so many rows at once, and at least those of one turn.
  const most = dtype === "f16" ? LEAST_BLOCKS : MOST_BLOCKS;
  const wanted = Math.max(LEAST_BLOCKS, Math.min(most, rows / ROWS_PER_BLOCK));
  const turns = Math.ceil(plan.workgroups / Math.min(wanted, Math.max(mostBlocks, 1)));
  const blocks = Math.ceil(plan.workgroups / turns);
  return { ...plan, values, turns, blocks, workgroups: blocks };
}

/** A pass in which each invocation goes along a block of rows of one vector of columns. */
export interface ColumnsPlan {
  readonly vector: Vector;
  /** Vectors. */
  readonly columns: number;
  /** Rows of a block. */
  readonly lines: number;
  readonly blocks: number;
  readonly workgroups: number;
}

/** Rows of a block without sums, and the fewest and the most with them. */
const LINES = { least: 8, most: 1024 } as const;

/** Enough to fill the largest devices. */
const BUSY_INVOCATIONS = 262_144;

export function planColumns(
  vector: Vector,
  rows: number,
  size: number,
  withSums: boolean,
  mostBlocks: number,
): ColumnsPlan {
  const columns = size / vector;
  const enough = Math.ceil(rows / Math.max(1, Math.floor(BUSY_INVOCATIONS / columns)));
  const wanted = Math.min(Math.max(enough, LINES.least), LINES.most);
  const lines = withSums ? Math.max(wanted, Math.ceil(rows / Math.max(mostBlocks, 1))) : LINES.least;
  const blocks = Math.ceil(rows / lines);
  return { vector, columns, lines, blocks, workgroups: groupsFor(columns * blocks, 1) };
}

/** Sums that an invocation should add before more of them share a column. */
const SUMS_PER_LANE = 16;

/** Invocations that share the blocks of a column. */
export function lanesOfTotals(blocks: number): LaneCount {
  const wanted = blocks / SUMS_PER_LANE;
  if (wanted <= 1) return 1;
  if (wanted <= 4) return 4;
  return wanted <= 16 ? 16 : 64;
}

/** At least as many bytes as the sums of columns of all blocks take. */
export function sumsBound(rows: number, size: number): number {
  return 4 * size * Math.min(rows, Math.max(MOST_BLOCKS, Math.ceil(rows / LINES.least)));
}
