import { IMMEDIATE_FEATURE } from "../program/index.js";

/** The bytes that WebGPU guarantees if it has immediates. */
export const MAX_IMMEDIATE_BYTES = 64;

/**
 * Returns the bytes that a dispatch may pass to its shader without a buffer; 0 if the device has no
 * immediates or they are switched off. `gpu` is the source of the device.
 */
export function immediateBytes(
  device: Pick<GPUDevice, "limits">,
  gpu: Pick<GPU, "wgslLanguageFeatures"> | undefined,
  disabled: readonly string[],
): number {
  const isKnown = gpu?.wgslLanguageFeatures?.has(IMMEDIATE_FEATURE) ?? false;
  // Implementations without immediates lack the limit too.
  const limit = (device.limits.maxImmediateSize as number | undefined) ?? 0;
  const isUsable = isKnown && limit >= MAX_IMMEDIATE_BYTES && !disabled.includes(IMMEDIATE_FEATURE);
  return isUsable ? MAX_IMMEDIATE_BYTES : 0;
}
