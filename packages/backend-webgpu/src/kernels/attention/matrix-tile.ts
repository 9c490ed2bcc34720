import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import type { Hiding } from "./hiding.wgsl.js";

/**
 * A workgroup handles `queries` rows of one key head, `keys` keys at a time, with `subgroups` of 32. Each
 * computes queries / subgroups rows, a multiple of 16, of scores and of the output; keys are a multiple of 32.
 */
export interface AttentionMatrixTile {
  readonly queries: number;
  readonly keys: number;
  readonly subgroups: number;
  /**
   * True: keys, values, scores and weights have workgroup memory of their own, with two barriers for each
   * step. False: values take the place of keys, and weights that of scores, with four barriers, but more
   * workgroups at a time.
   */
  readonly separate: boolean;
}

/** The properties that a kernel is generated for, besides its tile; sizes are parameters. */
export interface AttentionMatrixForm {
  /** Head elements, a multiple of 16, with zeros after those of the problem. */
  readonly columns: number;
  /** headSize is `columns`. */
  readonly whole: boolean;
  /**
   * Weights are f16 numbers, `rough`, or sums of two, `fine`. `mixed`: fine in workgroups with a row that
   * sees less than `ROUGH_KEYS` keys.
   */
  readonly weights: "rough" | "fine" | "mixed";
  /** `halves`: f16. `parts`: the keys are split; f32 sums with statistics, for `mergeProgram`. */
  readonly results: "halves" | "parts";
  /** Whether the logarithms of the sums are stored; not with `parts`. Default: false. */
  readonly logs?: boolean;
  readonly hiding?: Hiding | undefined;
}

/** Invocations that share a row of scores: 32 take 16 rows. */
export const ROW_SHARE = 2;

export function attentionMatrixThreads({ subgroups }: AttentionMatrixTile): number {
  return subgroups * SUBGROUP;
}

/** Such as `128x32_4`, by its subgroups; with `_s` if all is separate. */
export function attentionMatrixName({ queries, keys, subgroups, separate }: AttentionMatrixTile): string {
  return `${queries}x${keys}_${subgroups}${separate ? "_s" : ""}`;
}

type Panel = "keys" | "values" | "weights" | "scores";

export interface AttentionLayout {
  /** Rows of a subgroup. */
  readonly rows: number;
  /** From one row of a panel to the next. */
  readonly pitches: Readonly<Record<Panel, number>>;
  /** The length of a panel; 0 if there is none. */
  readonly panels: Readonly<Record<Panel, number>>;
  /** Matrices that a subgroup has of each, down or across. */
  readonly blocks: Readonly<Record<"rows" | "scores" | "out", number>>;
}

/**
 * Returns the places of operands and results in workgroup memory, in units of 16 bytes. Keys and values have
 * a panel each, and each subgroup has panels of its own for scores and weights, as arrays: so the places of
 * subgroup matrices within them are constants, proved inside when the kernel is compiled.
 */
export function attentionLayout(tile: AttentionMatrixTile, columns: number): AttentionLayout {
  const { queries, keys, subgroups, separate } = tile;
  const rows = queries / subgroups;
  // Units from one row to the next: odd, to spread the banks.
  const across = columns / UNIT + 1;
  const pitches = { keys: across, values: across, weights: keys / UNIT + 1, scores: keys / 4 + 1 };
  const panels = {
    keys: keys * pitches.keys,
    values: separate ? keys * pitches.values : 0,
    weights: separate ? rows * pitches.weights : 0,
    scores: rows * pitches.scores,
  };
  return { rows, pitches, panels, blocks: { rows: rows / SIDE, scores: keys / SIDE, out: columns / SIDE } };
}

/** Workgroup memory in bytes, for heads of `columns` elements. */
export function attentionMatrixBytes(tile: AttentionMatrixTile, columns: number): number {
  const { panels } = attentionLayout(tile, columns);
  return (
    16 * (panels.keys + panels.values + tile.subgroups * (panels.weights + panels.scores)) +
    4 * tile.subgroups
  );
}
