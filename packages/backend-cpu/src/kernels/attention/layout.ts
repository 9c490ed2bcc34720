import type { FloatType } from "@backplane/core";
import { elementFormats } from "../elements/index.js";
import { wholeLines } from "../vector/index.js";

/** Queries that one chunk does, in blocks whose scores lie side by side in 8 lanes. */
export const queryTile: number = 24;
export const blockQueries: number = 8;
/** Bytes of one element for each query of a block. */
export const rowBytes: number = 4 * blockQueries;

/** Keys whose scores are computed before they are turned into probabilities: whole register tiles of 4 or 6. */
export const keyTile: number = 132;

/** Room for the scores of a block: up to 5 more than there are keys are written. */
export const scoreRows: number = keyTile + 5;

/** Byte offsets within a worker's workspace. All f32. */
export interface AttentionLayout {
  /** [blocks][padded head size][8]: the queries, transposed. */
  readonly queries: number;
  /** [queryTile][padded head size]: sums of probability * value, not yet divided. */
  readonly sums: number;
  /** [blocks][scoreRows][8]: scores, then probabilities. */
  readonly scores: number;
  /** [blocks][2][8]: the largest score so far, and the sum of probabilities. */
  readonly statistics: number;
  /** [blocks][8]: the factors of the sums so far. */
  readonly corrections: number;
  /** [keyTile][head size]: converted keys and values, if they have to be. */
  readonly keys: number;
  readonly values: number;
  readonly bytes: number;
  /** Head size rounded up to whole register tiles. */
  readonly paddedSize: number;
}

/** The workspace is O(tile * head size), independent of the sequence lengths. */
export function attentionLayout(headSize: number, dtype: FloatType): AttentionLayout {
  const paddedSize = Math.ceil(headSize / 8) * 8;
  let bytes = 0;
  const place = (size: number): number => {
    const at = bytes;
    bytes += wholeLines(size);
    return at;
  };
  // Vector loads may reach past the last row.
  const rows = elementFormats[dtype].converted ? 4 * keyTile * headSize + 64 : 0;
  return {
    queries: place(4 * queryTile * paddedSize),
    sums: place(4 * queryTile * paddedSize),
    scores: place(4 * queryTile * scoreRows),
    statistics: place(8 * queryTile),
    corrections: place(4 * queryTile),
    keys: place(rows),
    values: place(rows),
    bytes,
    paddedSize,
  };
}
