import { SIDE, SUBGROUP } from "../gemm/panels.wgsl.js";

/**
 * A workgroup handles `queries` rows of one key head, `keys` keys at a time, with `down` x `across`
 * subgroups of 32. Each computes queries / down x keys / across scores, then queries / down x
 * columns / across of the output: all multiples of 16. Each turns queries / down / across rows of scores
 * into weights, four invocations to a row: a multiple of 8 rows, and keys a multiple of 32.
 */
export interface AttentionMatrixTile {
  readonly queries: number;
  readonly keys: number;
  readonly down: number;
  readonly across: number;
  /** Keys and values have workgroup memory of their own: two barriers for each step in place of four. */
  readonly separate: boolean;
}

/** Elements of a vec4<u32>, as which halves are read and staged. */
export const UNIT = 8;

/** Invocations that share a row of scores. */
export const ROW_SHARE = 4;

export function attentionMatrixThreads({ down, across }: AttentionMatrixTile): number {
  return down * across * SUBGROUP;
}

/** Such as `64x64_4x2`; `_s` where keys and values are separate. */
export function attentionMatrixName({ queries, keys, down, across, separate }: AttentionMatrixTile): string {
  return `${queries}x${keys}_${down}x${across}${separate ? "_s" : ""}`;
}

export interface AttentionLayout {
  /** Rows of a subgroup, and the columns of scores and of the output that it computes. */
  readonly rows: number;
  readonly scoreColumns: number;
  readonly outColumns: number;
  /** From one row of a panel to the next. */
  readonly pitches: Readonly<Record<"keys" | "values" | "weights" | "scores", number>>;
  /** The length of a panel, 0 where there is none. */
  readonly panels: Readonly<Record<"keys" | "values" | "weights" | "scores", number>>;
  /** Matrices that a subgroup has of each, down or across. */
  readonly blocks: Readonly<Record<"rows" | "scores" | "out", number>>;
}

/**
 * Where operands and results lie in workgroup memory, in units of 16 bytes. Each subgroup, or each row or
 * column of subgroups, has a panel that is an array of its own: so the places of subgroup matrices within
 * it are constants, proved inside it when the kernel is compiled.
 */
export function attentionLayout(tile: AttentionMatrixTile, columns: number): AttentionLayout {
  const { queries, keys, down, across, separate } = tile;
  const [rows, scoreColumns, outColumns] = [queries / down, keys / across, columns / across];
  // Units from one row to the next: odd, to spread the banks.
  const pitches = {
    keys: columns / UNIT + 1,
    values: outColumns / UNIT + 1,
    weights: keys / UNIT + 1,
    scores: scoreColumns / 4 + 1,
  };
  const panels = {
    keys: Math.max(scoreColumns * pitches.keys, separate ? 0 : keys * pitches.values),
    values: separate ? keys * pitches.values : 0,
    weights: rows * pitches.weights,
    // Remainders of weights take turns with scores.
    scores: rows * Math.max(pitches.scores, pitches.weights),
  };
  const blocks = { rows: rows / SIDE, scores: scoreColumns / SIDE, out: outColumns / SIDE };
  return { rows, scoreColumns, outColumns, pitches, panels, blocks };
}

/** Workgroup memory in bytes, for heads of `columns` elements. */
export function attentionMatrixBytes(tile: AttentionMatrixTile, columns: number): number {
  const { down, across } = tile;
  const { panels } = attentionLayout(tile, columns);
  const units =
    across * (panels.keys + panels.values) + down * panels.weights + down * across * panels.scores;
  return 16 * units + 4 * down * across;
}
