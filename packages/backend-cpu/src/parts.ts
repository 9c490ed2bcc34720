import type { NativeProducts } from "./kernels/kernel.js";
import type { KernelSet } from "./kernels/set.js";
import type { findBlas } from "./native/find-blas.js";
import type { nativeKernels } from "./native/sgemm.js";
import type { ThreadedQueue } from "./queue/threaded.js";

/** What a backend consists of, as far as a program may do without it. */
export interface CpuParts {
  readonly set: KernelSet;
  /** Native libraries. Undefined: the option `blas` is refused. */
  readonly native:
    | {
        readonly findBlas: typeof findBlas;
        readonly nativeKernels: typeof nativeKernels;
        readonly products: NativeProducts;
      }
    | undefined;
  /** Called when a device with threads is opened. */
  threadedQueue(): Promise<Pick<typeof ThreadedQueue, "open" | "controlBytes">>;
}
