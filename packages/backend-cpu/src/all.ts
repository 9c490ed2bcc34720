import { nativeProducts } from "./kernels/gemm/blas.js";
import { allKernels } from "./kernels/index.js";
import { findBlas } from "./native/find-blas.js";
import { nativeKernels } from "./native/sgemm.js";
import type { CpuParts } from "./parts.js";
import { ThreadedQueue } from "./queue/threaded.js";

/** All that this package has, loaded from the start. */
export const all: CpuParts = {
  set: allKernels,
  native: { findBlas, nativeKernels, products: nativeProducts },
  threadedQueue: async () => ThreadedQueue,
};
