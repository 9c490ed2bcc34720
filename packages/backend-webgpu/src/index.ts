/** What the entry points with all kernels share. */

import { allKernels } from "./kernels/all.js";
import { variantNamesOf } from "./kernels/forced.js";
import type { VariantNames } from "./kernels/forced-variants.js";

export * from "./shared.js";

/** The names that `WebGpuOptions.variants` takes, for each operation that has variants. */
export const variantNames: VariantNames = variantNamesOf(allKernels);
