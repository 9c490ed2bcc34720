import type { DeviceFeatures } from "../../device/index.js";
import { BUSY_WORKGROUPS, MULTIPROCESSORS } from "../machine.js";
import type { ProductTile } from "../tiles/index.js";
import { allowsCopies, copyTime, isAwkward } from "./copies.js";
import type { GemmShape } from "./shape.js";

/**
 * Splitting k is not worth it for shorter sums, because it takes another dispatch, nor for shorter parts:
 * 256^3 on an H200 takes 15.2 us in two parts and 8.0 in one, 256 x 256 x 1024 17.5 in four and 23.2 in one.
 */
export const SHORTEST_SUM = 768;
export const SHORTEST_PART = 128;

/** Microseconds for adding up the parts of sums: another dispatch, and writing and reading each part of a result. */
const COMBINING = 5;
const COMBINING_PART = 2e-6;

/** How an NVIDIA H200 gets on with a tile. The choice between tiles rests on it. */
export interface TilePace {
  readonly tile: ProductTile;
  /**
   * Workgroups for each multiprocessor that take hardly longer than one, since one does not keep it busy.
   * They run in rounds of this many: a last round with few workgroups takes as long as a full one.
   */
  readonly together: number;
  /** The time of a round for each step of k, in nanoseconds. */
  readonly round: number;
  /** The same if operands are awkward to stage (`isAwkward`). Default: `round`. */
  readonly awkwardRound?: number;
  /** Operands are copied before (see `inKMajor`), and k is never split. */
  readonly packs: boolean;
}

/** Workgroups that a tile makes of a shape. */
export function tileCount(shape: GemmShape, tile: Pick<ProductTile, "rows" | "columns">): number {
  return Math.ceil(shape.m / tile.rows) * Math.ceil(shape.n / tile.columns) * shape.batch;
}

/**
 * Long sums with few results would leave most of a GPU idle. Several workgroups then share the work of each
 * of `groups`, so that there are about `busy` of them. Returns how much of k each sums up; k itself if that
 * does not pay.
 */
export function partDepth(k: number, groups: number, busy: number): number {
  const parts = Math.min(Math.floor(busy / groups), Math.floor(k / SHORTEST_PART));
  if (parts < 2 || k < SHORTEST_SUM) return k;
  // Whole steps of every tile, and whole runs of four.
  return Math.ceil(k / parts / 32) * 32;
}

/** Returns the microseconds of a product with a tile, without the time that all tiles take. */
function expectedTime(shape: GemmShape, pace: TilePace): number {
  const { tile, together, packs } = pace;
  const round = (isAwkward(shape) ? pace.awkwardRound : undefined) ?? pace.round;
  const { m, n, k, batch } = shape;
  const groups = tileCount(shape, tile);
  const depth = packs ? k : partDepth(k, groups, BUSY_WORKGROUPS);
  const parts = Math.ceil(k / depth);
  const rounds = Math.ceil((groups * parts) / (MULTIPROCESSORS * together));
  const combining = parts === 1 ? 0 : COMBINING + COMBINING_PART * parts * batch * m * n;
  return (rounds * round * depth) / 1000 + combining + (packs ? copyTime(shape) : 0);
}

/**
 * Whether `pace` is that of the fastest tile, without those that come before it in `paces`. Each tile is
 * possible wherever those before it are, as none asks for more workgroup memory, so this need not be checked.
 */
export function isQuickest(
  paces: readonly TilePace[],
  pace: TilePace,
  shape: GemmShape,
  features: DeviceFeatures,
): boolean {
  if (pace.packs && !allowsCopies(shape, features)) return false;
  const time = expectedTime(shape, pace);
  for (let i = paces.indexOf(pace) + 1; i < paces.length; i++) {
    const other = paces[i]!;
    if ((!other.packs || allowsCopies(shape, features)) && expectedTime(shape, other) < time) return false;
  }
  return true;
}
