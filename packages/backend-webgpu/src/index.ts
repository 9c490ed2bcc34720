/** What the entry points with all kernels share. */
import { variantNamesOf } from "./kernels/forced.js";
import type { VariantNames } from "./kernels/forced-variants.js";
import { allKernels } from "./kernels/list.js";

export * from "./shared.js";

/** The names that `WebGpuOptions.variants` takes, for each operation that has variants. */
export const variantNames: VariantNames = variantNamesOf(allKernels);
