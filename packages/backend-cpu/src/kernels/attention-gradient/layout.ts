import type { FloatType } from "@backplane/core";
import { keyTile as otherTile, queryTile as ownTile, scoreRows } from "../attention/index.js";
import { elementFormats } from "../elements/index.js";
import { wholeLines } from "../vector/index.js";

/** Byte offsets within a worker's workspace, at whose start is the first packed operand. All f32. */
export interface GradientLayout {
  /** [blocks][padded head size][8]: the second operand of own rows, transposed like the first. */
  readonly packed2: number;
  /** [ownTile][padded head size]: sums of the gradients. */
  readonly sums1: number;
  readonly sums2: number;
  /** [blocks][scoreRows][8]: scores, then P; and outGradient . v, then S. */
  readonly probabilities: number;
  readonly changes: number;
  /** [otherTile][head size]: converted rows of the other side, if they have to be. */
  readonly rows1: number;
  readonly rows2: number;
  readonly bytes: number;
  /** Head size rounded up to whole register tiles. */
  readonly paddedSize: number;
}

/** The workspace is O(tile * head size), independent of the sequence lengths. */
export function gradientLayout(headSize: number, dtype: FloatType): GradientLayout {
  const paddedSize = Math.ceil(headSize / 8) * 8;
  const ofTile = 4 * ownTile * paddedSize;
  let bytes = wholeLines(ofTile);
  const place = (size: number): number => {
    const at = bytes;
    bytes += wholeLines(size);
    return at;
  };
  // Vector loads may reach past the last row.
  const rows = elementFormats[dtype].converted ? 4 * otherTile * headSize + 64 : 0;
  return {
    ...{ packed2: place(ofTile), sums1: place(ofTile), sums2: place(ofTile) },
    ...{ probabilities: place(4 * ownTile * scoreRows), changes: place(4 * ownTile * scoreRows) },
    ...{ rows1: place(rows), rows2: place(rows), bytes, paddedSize },
  };
}
