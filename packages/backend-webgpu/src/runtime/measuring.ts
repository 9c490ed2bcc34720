/** The feature of WebGPU without which nothing can be measured. */
export const TIMESTAMP_FEATURE = "timestamp-query";

/** The features to ask an adapter for, besides those of its tier. Kernels know nothing of them. */
export function measuringFeatures(
  { features }: Pick<GPUAdapter, "features">,
  disabled: readonly string[] = [],
): GPUFeatureName[] {
  return features.has(TIMESTAMP_FEATURE) && !disabled.includes(TIMESTAMP_FEATURE) ? [TIMESTAMP_FEATURE] : [];
}
