import { type DType, dtypeBytes } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import type { BufferRegion } from "../../runtime/index.js";
import { windowBytes as bindableBytes, WINDOW_ALIGNMENT } from "../../runtime/index.js";

/** Shaders count some elements in i32; no window may hold more than that reaches. */
const LARGEST_WINDOW = 2 ** 31;

/** Parts begin at multiples of this many elements if possible, so that vectors stay whole and aligned. */
const GRAIN = 64;

/** The longest window into a buffer that operations may count on, in bytes. */
export function windowBytes(features: DeviceFeatures): number {
  return Math.min(bindableBytes(features), LARGEST_WINDOW);
}

/** Larger pieces than this would only take more memory, and not be any quicker. */
const LARGEST_SCRATCH = 2 ** 28;

/** The most scratch that dividing an operation asks for in one piece, in bytes. */
export function scratchBytes(features: DeviceFeatures): number {
  return Math.min(windowBytes(features), LARGEST_SCRATCH);
}

/** Returns the length of the window that shows a region; 0 for an empty one. */
export function windowOf({ byteOffset, byteLength }: BufferRegion): number {
  return byteLength === 0 ? 0 : (byteOffset % WINDOW_ALIGNMENT) + byteLength;
}

/** `count` elements from element `first` of a region. */
export function sliceOf(region: BufferRegion, dtype: DType, first: number, count: number): BufferRegion {
  const bytes = dtypeBytes[dtype];
  return { memory: region.memory, byteOffset: region.byteOffset + first * bytes, byteLength: count * bytes };
}

/** Returns the place at which to cut `extent` > 1 in two. Neither part is empty; the first is the larger one. */
export function middleOf(extent: number): number {
  const half = Math.ceil(extent / 2);
  return extent > GRAIN ? Math.ceil(half / GRAIN) * GRAIN : half;
}
