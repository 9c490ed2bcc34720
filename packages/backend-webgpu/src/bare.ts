/** What both bare entries share: see `bare-browser.ts`. */
import { createBackendOf } from "@backplane/core";
import type { BackendKernels } from "./backend.js";
import type { BareWebGpuOptions } from "./bare-options.js";
import { adviceOn, chosenKernels } from "./kernels/chosen.js";
import type { WebGpuOptions } from "./options.js";

/** Separates the kernels of core's operations from the other options. */
export function chosenOf<Options extends BareWebGpuOptions>(
  options: Options,
): { readonly kernels: BackendKernels; readonly options: Omit<Options, "kernels"> & WebGpuOptions } {
  const { set, own } = chosenKernels((options as Partial<Options> | undefined)?.kernels);
  const known = { operations: set.definitions, advice: adviceOn };
  return {
    kernels: { set, known, make: (driver) => createBackendOf(driver, known) },
    options: { ...options, kernels: own },
  };
}
