/** Assumptions of variant tables about a device, as far as WebGPU does not report the facts. */
import type { DeviceFeatures } from "../device/index.js";

/**
 * Multiprocessors of a large GPU. WebGPU does not report their number, so every device that is not emulated
 * is taken for a large GPU.
 */
export const MULTIPROCESSORS = 132;

/** Workgroups that keep a large GPU busy (two for each multiprocessor). */
export const BUSY_WORKGROUPS: number = 2 * MULTIPROCESSORS;

/** True if a GPU is emulated: see `AdapterFamily.isEmulated`. */
export function isNarrow(features: DeviceFeatures): boolean {
  return features.family?.isEmulated ?? false;
}

/** True if a GPU is emulated, and kernels with much text compile soon enough. */
export function takesLargeTexts(features: DeviceFeatures): boolean {
  return isNarrow(features) && !features.family?.compilesSlowly;
}
