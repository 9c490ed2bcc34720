import { SIDE, SUBGROUP, UNIT } from "../tiles/index.js";
import type { Hiding } from "./hiding.wgsl.js";

/**
 * A workgroup handles `queries` rows of one key head, `keys` keys at a time, with `subgroups` of 32. `across` of them
 * are a team with the same rows, a multiple of 16 for each. Of the products, each computes the scores of its share of the
 * keys and its share of the output's columns; in between, it turns the scores of its share of the rows into weights. Keys are
 * a multiple of 32.
 */
export interface AttentionMatrixTile {
  readonly queries: number;
  readonly keys: number;
  readonly subgroups: number;
  readonly across: number;
  /**
   * Which have workgroup memory of their own. `all`: keys, values, scores and weights, with two barriers for each step.
   * `values`: weights take the place of scores, with three barriers. `none`: values also take the place of keys, with four
   * barriers, but more workgroups at a time.
   */
  readonly own: "all" | "values" | "none";
}

/** The properties that a kernel is generated for, besides its tile; sizes are parameters. */
export interface AttentionMatrixForm {
  /** Head elements, a multiple of 16, with zeros after those of the problem. */
  readonly columns: number;
  /** headSize is `columns`. */
  readonly whole: boolean;
  /**
   * Weights are f16 numbers, `rough`, or sums of two, `fine`. `mixed`: fine in workgroups with a row that
   * sees less than `ROUGH_KEYS` keys, or that a mask leaves less, which a pass before has counted.
   */
  readonly weights: "rough" | "fine" | "mixed";
  /** `halves`: f16. `parts`: the keys are split; f32 sums with statistics, for `mergeProgram`. */
  readonly results: "halves" | "parts";
  /** Whether the logarithms of the sums are stored; not with `parts`. Default: false. */
  readonly logs?: boolean;
  readonly hiding?: Hiding | undefined;
  /** Whether rows of operands lie apart, in whole eights; not those of parts. Default: false. */
  readonly apart?: boolean;
}

/** Whether a pass before has counted the keys that the mask leaves, and copied it into tiles. */
export function isPrepared({ weights, hiding }: AttentionMatrixForm): boolean {
  return weights === "mixed" && hiding?.mask !== undefined;
}

/** Invocations that share a row of scores: 32 take 16 rows. */
export const ROW_SHARE = 2;

export function attentionMatrixThreads({ subgroups }: AttentionMatrixTile): number {
  return subgroups * SUBGROUP;
}

const suffixes: Readonly<Record<AttentionMatrixTile["own"], string>> = { all: "_s", values: "_v", none: "" };

/** Such as `128x32_4`, by its subgroups, or `128x32_4x2` if two are a team; with `_s` if all is separate, or `_v` if values are. */
export function attentionMatrixName({ queries, keys, subgroups, across, own }: AttentionMatrixTile): string {
  return `${queries}x${keys}_${subgroups}${across > 1 ? `x${across}` : ""}${suffixes[own]}`;
}

type Panel = "keys" | "values" | "weights" | "scores";

export interface AttentionLayout {
  /** Rows of a team. */
  readonly rows: number;
  /** From one row of a panel to the next. */
  readonly pitches: Readonly<Record<Panel, number>>;
  /** The length of a panel; 0 if there is none. */
  readonly panels: Readonly<Record<Panel, number>>;
  /**
   * Matrices that a subgroup has of each, down or across: rows of the products, and those of the weights; columns of the
   * scores, and of the output.
   */
  readonly blocks: Readonly<Record<"rows" | "weights" | "scores" | "out", number>>;
}

/**
 * Returns the places of operands and results in workgroup memory, in units of 16 bytes. Keys and values have
 * a panel each, and each team has panels of its own for scores and weights, as arrays: so the places of
 * subgroup matrices within them, of a team of one, are constants, proved inside when the kernel is compiled.
 */
export function attentionLayout(tile: AttentionMatrixTile, columns: number): AttentionLayout {
  const { queries, keys, subgroups, across, own } = tile;
  const rows = (queries * across) / subgroups;
  // Units from one row to the next: odd, to spread the banks.
  const pitch = columns / UNIT + 1;
  const pitches = { keys: pitch, values: pitch, weights: keys / UNIT + 1, scores: keys / 4 + 1 };
  const panels = {
    keys: keys * pitches.keys,
    values: own === "none" ? 0 : keys * pitches.values,
    weights: own === "all" ? rows * pitches.weights : 0,
    scores: rows * pitches.scores,
  };
  const blocks = {
    ...{ rows: rows / SIDE, weights: rows / SIDE / across },
    ...{ scores: keys / SIDE / across, out: columns / SIDE / across },
  };
  return { rows, pitches, panels, blocks };
}

/** So many times the place of a subgroup in its team, to add to something; nothing for a team of one. */
export function ofMember({ across }: AttentionMatrixTile, step: number): string {
  return across === 1 ? "" : `member * ${step}u + `;
}

/** Workgroup memory in bytes, for heads of `columns` elements. */
export function attentionMatrixBytes(tile: AttentionMatrixTile, columns: number): number {
  const { panels } = attentionLayout(tile, columns);
  return (
    16 * (panels.keys + panels.values + (tile.subgroups / tile.across) * (panels.weights + panels.scores)) +
    4 * tile.subgroups
  );
}
