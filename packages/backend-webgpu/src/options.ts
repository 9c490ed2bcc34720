import type { DeviceOptions } from "./device/index.js";
import type { ForcedVariants } from "./kernels/forced-variants.js";
import type { OwnWebGpuKernel } from "./kernels/own-kernel.js";
import type { TuningData } from "./tuning/data.js";

/** The options of all entry points. */
export interface WebGpuOptions extends DeviceOptions {
  /** Freed device memory is kept for reuse up to this many bytes. Default 512 MiB. */
  readonly poolBytes?: number;
  /**
   * Kernels to use for every shape, by operation and name (see `variantNames`); for tests and comparisons. A
   * variant that does not fit a shape, or is not possible on the device, is passed over.
   */
  readonly variants?: ForcedVariants;
  /**
   * The result of `tune()` in an earlier run: the kernel to use for each shape in it. Data from another
   * adapter, tier or version is ignored, and `log` receives a line about it. `variants` take precedence.
   */
  readonly tuning?: TuningData | readonly TuningData[];
  /** Kernels for operations that core does not define. Default: none. */
  readonly kernels?: readonly OwnWebGpuKernel[];
  /**
   * Receives a line when a device has been opened (adapter, driver, tier and why, limits), a line when an
   * operation first uses a kernel for a reason (which, and why), and lines about tuning. An error that it
   * throws surfaces as an unhandled rejection and harms no call. Default: none.
   */
  readonly log?: (line: string) => void;
}
