import type { DeviceFeatures } from "../../device/index.js";
import { WINDOW_ALIGNMENT } from "../../runtime/index.js";
import { scratchBytes, windowBytes } from "./regions.js";

/** Parts of lines begin at multiples of this many elements, so that vectors stay aligned. */
const GRAIN = 16;

export interface SlabPieces {
  /** Elements of a line in one piece; those behind them go with later pieces. */
  readonly columns: number;
  /** Lines of a piece. */
  readonly height: number;
}

/**
 * How to cut a slab of lines that is too long for a window. Pieces are whole lines if a window shows one line and scratch
 * has room for all of its columns, and parts of single lines otherwise.
 *
 * @param inner elements of a line
 * @param elementBytes the longest element that a window shows
 * @param columnBytes scratch of one column
 */
export function slabPieces(
  features: DeviceFeatures,
  inner: number,
  elementBytes: number,
  columnBytes: number,
): SlabPieces {
  const elements = mostElements(features, elementBytes);
  const room = Math.floor((scratchBytes(features) - WINDOW_ALIGNMENT) / columnBytes);
  const most = Math.min(elements, room);
  if (inner > most) return { columns: most - (most % GRAIN), height: 1 };
  const height = Math.floor(elements / inner);
  return { columns: inner, height: inner === 1 && height > GRAIN ? height - (height % GRAIN) : height };
}

/** Elements of each piece of a single line that is too long for a window. */
export function linePiece(features: DeviceFeatures, elementBytes: number): number {
  const most = mostElements(features, elementBytes);
  return most - (most % GRAIN);
}

/** Elements that a window shows wherever they begin. */
function mostElements(features: DeviceFeatures, elementBytes: number): number {
  return Math.floor((windowBytes(features) - WINDOW_ALIGNMENT) / elementBytes);
}
