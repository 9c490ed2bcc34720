import { WORKGROUP_SIZE } from "../../program/index.js";

/** Elements that one load takes. f16 is read one by one anywhere, but written in whole words. */
export type Vector = 1 | 2 | 4;

export type LaneCount = 1 | 4 | 16 | 32 | 64 | 256;
export const laneCounts: readonly LaneCount[] = [1, 4, 16, 64, WORKGROUP_SIZE];

/** Neighbouring invocations read neighbours in a row, or neighbouring rows; vectors lie likewise. */
export type Along = "length" | "inner";

/** How invocations read rows. */
export interface LoadTile {
  readonly along: Along;
  readonly vector: Vector;
  /** Invocations that share a row. */
  readonly lanes: LaneCount;
}

/**
 * `lines`: an invocation keeps the facts of its columns for several lines. `rows`: those of its row, which is along memory.
 * `flat`: any shape.
 */
export type ApplyForm = "lines" | "rows" | "flat";
