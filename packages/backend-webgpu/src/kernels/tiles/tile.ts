import type { DeviceFeatures } from "../../device/index.js";

/**
 * One register-blocked matrix product: a workgroup computes `rows` x `columns` of the result, each of
 * its invocations `threadRows` x `threadColumns` of them, walking through k in steps of `depth` that
 * are staged in workgroup memory. All are multiples of 4.
 */
export interface ProductTile {
  readonly rows: number;
  readonly columns: number;
  readonly depth: number;
  readonly threadRows: number;
  readonly threadColumns: number;
  /**
   * The number of tiles that are staged by turns. Two need half as many barriers, as one is written while the
   * other may still be read; the sum over k must then consist of whole pairs of steps. Default: 1.
   */
  readonly buffers?: 1 | 2;
}

/** The tiles that products of matrices and convolutions are made of. */
const huge: ProductTile = { rows: 256, columns: 128, depth: 16, threadRows: 16, threadColumns: 8 };
const medium: ProductTile = { rows: 64, columns: 64, depth: 16, threadRows: 8, threadColumns: 8 };
const small: ProductTile = { rows: 32, columns: 32, depth: 16, threadRows: 4, threadColumns: 4 };
export const productTiles: Readonly<Record<"huge" | "large" | "medium" | "small" | "deep", ProductTile>> = {
  ...{ huge, medium, small },
  large: { ...huge, rows: 128 },
  /** Half as many steps to wait for if a few workgroups leave a GPU nothing else to do. */
  deep: { ...small, depth: 32 },
};

/** Invocations along the rows and the columns of the tile. */
export function tileThreads(tile: ProductTile): { down: number; across: number; total: number } {
  const down = tile.rows / tile.threadRows;
  const across = tile.columns / tile.threadColumns;
  return { down, across, total: down * across };
}

/** Quads (four values) from one step of k to the next in workgroup memory; odd, to spread the banks. */
export function stagedPitch(extent: number): number {
  return extent / 4 + 1;
}

/** Returns the workgroup memory of one staged tile of this many rows or columns, in bytes. */
export function stagedBytes({ depth }: ProductTile, extent: number): number {
  return 16 * depth * stagedPitch(extent);
}

/** The same of both. */
export function tileBytes(tile: ProductTile): number {
  return (tile.buffers ?? 1) * (stagedBytes(tile, tile.rows) + stagedBytes(tile, tile.columns));
}

/** Whether a workgroup of the device can compute the tile. */
export function hasRoomForTile({ limits }: DeviceFeatures, tile: ProductTile): boolean {
  return (
    limits.maxComputeInvocationsPerWorkgroup >= tileThreads(tile).total &&
    limits.maxComputeWorkgroupStorageSize >= tileBytes(tile)
  );
}

/** Such as `64x64x16_8x8`, and `256x128x2x8_16x8` with two staged tiles. */
export function tileName(tile: ProductTile): string {
  const { rows, columns, depth, threadRows, threadColumns, buffers } = tile;
  return `${rows}x${columns}x${buffers === undefined ? "" : `${buffers}x`}${depth}_${threadRows}x${threadColumns}`;
}
