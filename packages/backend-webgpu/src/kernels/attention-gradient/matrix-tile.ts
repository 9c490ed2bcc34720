import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";

/**
 * A workgroup handles `rows` rows of one key head, keys or queries, and `others` rows of the other side at a time, with
 * `subgroups` of 32. Each has rows / subgroups rows of scores and of results. These and `others` are multiples of 16, one of
 * them of 32.
 */
export interface GradientMatrixTile {
  readonly rows: number;
  readonly others: number;
  readonly subgroups: number;
  /** Whether the other rows of both operands have workgroup memory of their own; 1: they take turns, one of them twice. */
  readonly panels: 1 | 2;
}

export function gradientMatrixThreads({ subgroups }: GradientMatrixTile): number {
  return subgroups * SUBGROUP;
}

/** Such as `128x32_8`, by its subgroups; with `_2` if it has two panels. */
export function gradientMatrixName({ rows, others, subgroups, panels }: GradientMatrixTile): string {
  return `${rows}x${others}_${subgroups}${panels === 2 ? "_2" : ""}`;
}

export interface GradientMatrixLayout {
  /** Rows of a subgroup. */
  readonly rows: number;
  /** Runs of 16 scores of an invocation. */
  readonly runs: number;
  /** From one row to the next. */
  readonly pitches: Readonly<Record<"panel" | "scores", number>>;
  /** Lengths: of the other rows of one operand, and of a subgroup's scores. */
  readonly lengths: Readonly<Record<"panel" | "scores", number>>;
  /** Matrices that a subgroup has of each, down or across. */
  readonly blocks: Readonly<Record<"rows" | "others" | "columns", number>>;
}

/** Returns the places of operands and scores in workgroup memory, in units of 16 bytes; see `attentionLayout`. */
export function gradientMatrixLayout(
  { rows, others, subgroups }: GradientMatrixTile,
  columns: number,
): GradientMatrixLayout {
  const own = rows / subgroups;
  // Units from one row to the next: odd, to spread the banks.
  const pitches = { panel: columns / UNIT + 1, scores: others / 4 + 1 };
  return {
    rows: own,
    runs: (own * others) / SIDE / SUBGROUP,
    pitches,
    lengths: { panel: others * pitches.panel, scores: own * pitches.scores },
    blocks: { rows: own / SIDE, others: others / SIDE, columns: columns / SIDE },
  };
}

/** Workgroup memory in bytes, for heads of `columns` elements. */
export function gradientMatrixBytes(tile: GradientMatrixTile, columns: number): number {
  const { lengths } = gradientMatrixLayout(tile, columns);
  // Two statistics and a place in the mask for each of the other rows.
  return 16 * (tile.panels * lengths.panel + tile.subgroups * lengths.scores) + 12 * tile.others;
}
