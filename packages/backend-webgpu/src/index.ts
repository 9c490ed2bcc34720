/** What the entry points with all kernels share. */
import { type VariantNames, variantNamesOf } from "./kernels/forced.js";
import { allKernels } from "./kernels/list.js";

export * from "./shared.js";

/** The names that `WebGpuOptions.variants` takes, for each operation that has variants. */
export const variantNames: VariantNames = variantNamesOf(allKernels);
