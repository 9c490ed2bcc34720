import { IMMEDIATE_FEATURE } from "../program/index.js";

/** What WebGPU guarantees where it has immediates. */
export const MAX_IMMEDIATE_BYTES = 64;

/**
 * Bytes that a dispatch may carry to its shader without a buffer; 0 where the device has no immediates
 * or they are switched off. `gpu` is where the device comes from.
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
