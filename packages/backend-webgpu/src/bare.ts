/** What both bare entries share: see `bare-browser.ts`. */
import { createBackendOf } from "@backplane/core";
import type { BackendKernels } from "./backend.js";
import { adviceOn, chosenKernels } from "./kernels/chosen.js";
import type { OwnWebGpuKernel } from "./kernels/own-kernel.js";
import type { WebGpuKernel } from "./kernels/webgpu-kernel.js";
import type { WebGpuOptions } from "./options.js";

export interface BareWebGpuOptions extends Omit<WebGpuOptions, "kernels"> {
  /**
   * All that the backend computes: kernels of core's operations, from `@backplane/backend-webgpu/kernels/...`, and
   * kernels for operations of your own. `supports` is false for any other operation, and calls of it throw `UNSUPPORTED`.
   */
  readonly kernels: readonly (WebGpuKernel | OwnWebGpuKernel)[];
}

/** Separates the kernels of core's operations from the other options. */
export function chosenOf<Options extends BareWebGpuOptions>(
  options: Options,
): { readonly kernels: BackendKernels; readonly options: Omit<Options, "kernels"> & WebGpuOptions } {
  const { set, own } = chosenKernels(options.kernels);
  const known = { operations: set.definitions, advice: adviceOn };
  return {
    kernels: { set, known, make: (driver) => createBackendOf(driver, known) },
    options: { ...options, kernels: own },
  };
}
