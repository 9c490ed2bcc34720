/** The feature of WebGPU that measuring needs. */
export const TIMESTAMP_FEATURE = "timestamp-query";

/** Returns the features to request from an adapter besides those of its tier. Kernels do not use them. */
export function measuringFeatures(
  { features }: Pick<GPUAdapter, "features">,
  disabled: readonly string[] = [],
): GPUFeatureName[] {
  return features.has(TIMESTAMP_FEATURE) && !disabled.includes(TIMESTAMP_FEATURE) ? [TIMESTAMP_FEATURE] : [];
}
