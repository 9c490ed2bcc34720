import { dtypeBytes, type ScatterProblem } from "@backplane/core";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { Vector } from "./lists.wgsl.js";
import { RADIX } from "./order.wgsl.js";

interface Place {
  readonly byteOffset: number;
}

type Problem = Pick<
  ScatterProblem<unknown>,
  "dtype" | "kind" | "outer" | "length" | "count" | "inner" | "outerStride" | "innerStride"
> & { readonly updates: Place; readonly output: Place };

/** Updates that have indices of their own, and the places that they may go to; see `targetFunctions`. */
interface Entries {
  readonly entries: number;
  readonly keys: number;
  readonly period: number;
  /** Rows of the updates, which are those of all entries, one or several times. */
  readonly rows: number;
  /** What an entry moves. */
  readonly units: number;
}

export type ScatterPlan =
  | { readonly form: "columns"; readonly width: 1 | 2 }
  | (Entries & { readonly form: "last"; readonly unit: "block" | "word" })
  | (Entries & { readonly form: "ranges"; readonly vector: Vector })
  | (Entries & { readonly form: "lists"; readonly vector: Vector; readonly digits: readonly Digit[] });

/** Bits of a key that one pass sorts by. */
export interface Digit {
  readonly shift: number;
  readonly mask: number;
}

/** Microseconds on a large GPU, roughly: one update of a column; and what the other forms take before they move anything. */
const columnStep = 1;
const listsStart = 12;
const orderPass = 15;
const lastStart = 12;
const rangesStart = 8;

/**
 * Rows of updates that all workgroups can look through, each for those of its range of keys, and units that these then move, in
 * less time than sorting takes: 25 us instead of 53 for 16,384 rows of 64 units on an NVIDIA H100, and 13 instead of 65 for 8,192
 * of 16. With 32,768 rows, or 256 units, there is no difference.
 */
const MOST_LOOKED_THROUGH = 2 ** 14;
const MOST_UNITS = 2 ** 21;

/** Invocations that walk along columns at the same time, and entries that a pass over them takes in a microsecond. */
const BUSY_INVOCATIONS = 2 ** 17;
const ENTRIES_PER_STEP = 2 ** 16;

/** Depends on shapes and places, and on whether many workgroups can look through all updates, as those of an emulated GPU cannot. */
export function planScatter(problem: Problem, canLookThrough: boolean): ScatterPlan {
  const { kind, dtype, outer, count, inner, output } = problem;
  const isHalf = dtype === "f16";
  const width = isHalf ? 2 : 1;
  const sorted = () => (canLookThrough ? planRanges(problem) : undefined) ?? planLists(problem);
  const other = kind === "set" ? (planLast(problem) ?? sorted()) : sorted();
  if (isHalf && (inner % 2 !== 0 || output.byteOffset % 4 !== 0)) return other;
  const walks = Math.max(1, (outer * inner) / width / BUSY_INVOCATIONS);
  const passes = other.form === "lists" ? other.digits.length : 1;
  const starts = { last: lastStart, ranges: rangesStart, lists: listsStart + passes * orderPass };
  const start = starts[other.form];
  const others = start + (passes * other.entries) / ENTRIES_PER_STEP;
  return columnStep * count * walks <= others ? { form: "columns", width } : other;
}

function planLast(problem: Problem): (ScatterPlan & { form: "last" }) | undefined {
  const { dtype, inner, innerStride, updates, output } = problem;
  const period = innerStride === 1 ? inner : 1;
  const bytes = (inner / period) * dtypeBytes[dtype];
  for (const [unit, size] of [
    ["block", 16],
    ["word", 4],
  ] as const)
    if ([bytes, updates.byteOffset, output.byteOffset].every((place) => place % size === 0))
      return { form: "last", unit, ...entriesOf(problem, period, bytes / size) };
  return undefined;
}

function planRanges(problem: Problem): (ScatterPlan & { form: "ranges" }) | undefined {
  const { digits: _, ...lists } = planLists(problem);
  const isAlone = problem.dtype === "f16" && lists.vector === 1;
  const { keys, rows, units } = lists;
  if (keys === 0 || isAlone || rows > MOST_LOOKED_THROUGH || rows * units > MOST_UNITS) return undefined;
  return { ...lists, form: "ranges" };
}

/** Workgroups that look through all entries. */
const RANGES = 512;

/** Ranges of keys, and keys of each. */
export function rangesOfKeys(keys: number): { readonly ranges: number; readonly range: number } {
  const range = Math.ceil(keys / Math.min(keys, RANGES));
  return { ranges: Math.ceil(keys / range), range };
}

function planLists(problem: Problem): ScatterPlan & { form: "lists" } {
  const { dtype, outer, inner, innerStride, updates, output } = problem;
  const period = innerStride === 1 ? inner : 1;
  const row = inner / period;
  const fits = (size: number) =>
    [row * dtypeBytes[dtype], updates.byteOffset, output.byteOffset].every(
      (place) => place % (size * dtypeBytes[dtype]) === 0,
    );
  const vector = fits(4) ? 4 : dtype === "f16" && fits(2) ? 2 : 1;
  // Halves that share words with others go one by one.
  const own =
    dtype === "f16" && vector === 1
      ? entriesOf({ ...problem, outerStride: outer }, inner, 1)
      : entriesOf(problem, period, row / vector);
  return { form: "lists", vector, ...own, digits: digitsOf(own.keys) };
}

function entriesOf(
  { outer, outerStride, length, count }: Pick<Problem, "outer" | "outerStride" | "length" | "count">,
  period: number,
  units: number,
): Entries {
  const slabs = outerStride > 0 ? outer : 1;
  const entries = slabs * count * period;
  return { entries, keys: slabs * length * period, period, units, rows: (outer / slabs) * entries };
}

/** Digits of about the same length, from the lowest on, for keys up to and with this number. */
function digitsOf(keys: number): readonly Digit[] {
  const bits = 32 - Math.clz32(keys);
  const digits = Math.ceil(bits / Math.log2(RADIX));
  const length = Math.ceil(bits / digits);
  return Array.from({ length: digits }, (_, i) => ({
    shift: i * length,
    mask: 2 ** Math.min(length, bits - i * length) - 1,
  }));
}

/** Tiles of so many workgroups keep a large GPU busy; more of them only make more counts. */
const MOST_TILES = 1024;

/** Tiles of entries. Many are a multiple of 4, so that their counts can be read as vectors. */
export function tilesFor(entries: number): number {
  const tiles = Math.min(Math.ceil(entries / WORKGROUP_SIZE), MOST_TILES);
  return tiles > 16 ? Math.ceil(tiles / 4) * 4 : tiles;
}

/** How invocations share a row of so many units, one for each. */
export function shareOfRow(units: number): { readonly laneShift: number; readonly parts: number } {
  const laneShift = Math.min(Math.ceil(Math.log2(units)), Math.log2(WORKGROUP_SIZE));
  return { laneShift, parts: Math.ceil(units / 2 ** laneShift) };
}
