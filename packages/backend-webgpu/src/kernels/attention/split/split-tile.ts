import {
  type AttentionLayout,
  type AttentionMatrixTile,
  attentionLayout,
  attentionMatrixBytes,
} from "../matrix-tile.js";

/** Operands are in two parts, and so are weights, which take the place of scores. */
export interface AttentionSplitTile extends AttentionMatrixTile {
  readonly own: "values" | "none";
}

/** Keys and values are rows of `columns` high parts and as many low ones. */
export function splitLayout(tile: AttentionSplitTile, columns: number): AttentionLayout {
  const layout = attentionLayout(tile, 2 * columns);
  return { ...layout, blocks: { ...layout.blocks, out: layout.blocks.out / 2 } };
}

/** Workgroup memory in bytes, for heads of `columns` elements: with a factor for every 16 rows. */
export function attentionSplitBytes(tile: AttentionSplitTile, columns: number): number {
  const { blocks } = splitLayout(tile, columns);
  return attentionMatrixBytes(tile, 2 * columns) + 4 * (tile.subgroups / tile.across) * blocks.rows;
}
