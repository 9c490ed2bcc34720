import type { OwnWebGpuKernel } from "./kernels/own-kernel.js";
import type { WebGpuKernel } from "./kernels/webgpu-kernel.js";
import type { WebGpuOptions } from "./options.js";

/** The options of the entries without kernels of their own. */
export interface BareWebGpuOptions extends Omit<WebGpuOptions, "kernels"> {
  /**
   * All that the backend computes: kernels of core's operations, from `@backplane/backend-webgpu/kernels`, and
   * kernels for operations of your own. `supports` is false for any other operation, and calls of it throw `UNSUPPORTED`.
   */
  readonly kernels: readonly (WebGpuKernel | OwnWebGpuKernel)[];
}
