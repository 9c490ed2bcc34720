import type { DeviceFeatures } from "../device/index.js";

/** Windows into buffers may start at multiples of this on every device; see `minStorageBufferOffsetAlignment`. */
export const WINDOW_ALIGNMENT = 256;

/** The most that one binding shows of a buffer; larger buffers are seen through windows of this length. */
export function windowBytes({ limits }: DeviceFeatures): number {
  const { maxStorageBufferBindingSize } = limits;
  return maxStorageBufferBindingSize - (maxStorageBufferBindingSize % WINDOW_ALIGNMENT);
}
