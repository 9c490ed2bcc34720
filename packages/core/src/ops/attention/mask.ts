import type { Region } from "../../region.js";
import type { MaskType } from "./index.js";

/** Elements per step along each axis, or extents. */
export type MaskAxes = readonly [batch: number, head: number, query: number, key: number];

/** What is added to scores (f32, f16), or which keys are seen (u8). */
export interface AttentionMask<Memory> {
  readonly dtype: MaskType;
  /** From the first to the last element that is read. */
  readonly region: Region<Memory>;
  /** 0 or more; 0 along axes of extent 1. */
  readonly strides: MaskAxes;
}

/** Elements from the first to the last one of a mask with these extents. */
export function reachOfMask(strides: MaskAxes, extents: MaskAxes): number {
  if (extents.includes(0)) return 0;
  return extents.reduce((reach, extent, axis) => reach + (extent - 1) * strides[axis]!, 1);
}
