import type { MatrixTile } from "../matrix-tile.js";

/** Elements along k whose parts lie together: the depth of a subgroup matrix. */
export const RUN = 16;

/**
 * The shortest sums to split operands for. A product may lose 5 units of 2^-23 of its size, more than the
 * bound of a sum of one or two leaves room for.
 */
export const SHORTEST: number = RUN;

/** Parts in a unit, the size of one load (a vec4<u32>). */
export const UNIT = 8;

/** Units from one line of a panel to the next: odd, to spread the banks. */
export function panelPitch(tile: MatrixTile): number {
  return tile.depth / UNIT + 1;
}

/** Workgroup memory in bytes. */
export function splitBytes(tile: MatrixTile): number {
  return 2 * UNIT * (tile.rows + tile.columns) * panelPitch(tile);
}
