/** What tables of variants take a device for, where WebGPU does not tell. */
import type { DeviceFeatures } from "../device/index.js";

/** Multiprocessors of a large GPU. WebGPU does not tell how many a device has: all are taken for one, unless they are emulated. */
export const MULTIPROCESSORS = 132;

/** Workgroups that keep a large GPU busy (two for each multiprocessor). */
export const BUSY_WORKGROUPS: number = 2 * MULTIPROCESSORS;

/** True where a GPU is emulated: see `AdapterFamily.isEmulated`. */
export function isNarrow(features: DeviceFeatures): boolean {
  return features.family?.isEmulated ?? false;
}

/** True where a GPU is emulated, and kernels with much text compile soon enough. */
export function takesLargeTexts(features: DeviceFeatures): boolean {
  return isNarrow(features) && !features.family?.compilesSlowly;
}
