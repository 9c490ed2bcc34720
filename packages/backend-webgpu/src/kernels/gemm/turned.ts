/** When an operand of a product on matrix units is turned first (see `inUnits`): facts about shapes alone. */
import { MULTIPROCESSORS } from "../machine.js";
import type { MatrixTile } from "./matrix-tile.js";
import { tileCount } from "./rounds.js";
import type { AlignedShape, GemmShape } from "./shape.js";

/** How much longer a tile takes if rows of its longer operand lie along k, which is the slow way to read. */
const ALONG_K = 1.12;

/** Multiplications of a large product in a microsecond, on an NVIDIA H100. */
const MULTIPLICATIONS = 176e6;

/** Elements that are turned there in a microsecond, and the microseconds that this takes however few they are. */
const TURNED = 630e3;
const TURNING = 3;

/** The operand of which a tile reads more; undefined if it reads as much of both. */
function longerOperand({ rows, columns }: MatrixTile): "a" | "b" | undefined {
  if (rows === columns) return undefined;
  return rows > columns ? "a" : "b";
}

/** The operand that is slow to read for a tile. */
function slowOperand({ transA, transB }: GemmShape, tile: MatrixTile): "a" | "b" | undefined {
  const longer = longerOperand(tile);
  if (longer === undefined) return undefined;
  return (longer === "a" ? !transA : transB) ? longer : undefined;
}

function elementsOf({ m, n, k, batch }: GemmShape, name: "a" | "b"): number {
  return batch * k * (name === "a" ? m : n);
}

function turningTime(shape: GemmShape, name: "a" | "b"): number {
  return TURNING + elementsOf(shape, name) / TURNED;
}

/** Whether there is room for as much of the longer operand as one tile reads. */
function hasRoomForSide({ k }: GemmShape, { rows, columns }: MatrixTile, most: number): boolean {
  return 2 * k * Math.max(rows, columns) <= most;
}

/**
 * Returns the operand that is turned for a tile: the slow one if it is copied anyway, or if a copy pays and takes no more
 * than `most` bytes, or its pieces do if the product `mayBeCut`.
 */
export function turnedOperand(
  shape: AlignedShape,
  tile: MatrixTile,
  most: number,
  mayBeCut: boolean,
): "a" | "b" | undefined {
  const slow = slowOperand(shape, tile);
  if (slow === undefined || !(slow === "a" ? shape.eightsA : shape.eightsB)) return slow;
  const { m, n, k, batch } = shape;
  const saved = ((ALONG_K - 1) * batch * m * n * k) / MULTIPLICATIONS;
  const hasRoom = 2 * elementsOf(shape, slow) <= most || (mayBeCut && hasRoomForSide(shape, tile, most));
  return hasRoom && saved > turningTime(shape, slow) ? slow : undefined;
}

/**
 * Returns the microseconds of tiles that have a multiprocessor to themselves: a last round with few of them is a whole
 * one. What is copied because it is not aligned is not counted, as all tiles wait for it.
 */
export function matrixTime(shape: GemmShape, tile: MatrixTile): number {
  const rounds = Math.ceil(tileCount(shape, tile) / MULTIPROCESSORS);
  const time = (rounds * MULTIPROCESSORS * tile.rows * tile.columns * shape.k) / MULTIPLICATIONS;
  const slow = slowOperand(shape, tile);
  if (slow === undefined) return time;
  return Math.min(ALONG_K * time, time + turningTime(shape, slow));
}
