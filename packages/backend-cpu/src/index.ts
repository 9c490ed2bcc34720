import { type BackendProvider, type ComputeBackend, createBackend, toBackendError } from "@backplane/core";
import { CpuDriver, planDevice } from "./driver.js";
import { type CpuOptions, resolveOptions } from "./options.js";

export { CpuDriver, type CpuNativeRegion } from "./driver.js";
export { type ForcedVariants, type GemmVariant, gemmVariants } from "./kernels/index.js";
export type { CpuMemory, OwnCpuKernel } from "./kernels/kernel.js";
export type { BlasOption } from "./native/find-blas.js";
export { type CpuOptions, variantNames } from "./options.js";

/**
 * Offers the CPU to a registry. Throws `INVALID_ARGUMENT` for bad options and unknown names. A program with
 * one object for several packages must pass on only the options of this one.
 */
export function cpu(options: CpuOptions = {}): BackendProvider {
  const resolved = resolveOptions(options);
  return {
    name: "cpu",
    async probe() {
      try {
        return { available: true, device: planDevice(resolved).device };
      } catch (error) {
        return { available: false, reason: toBackendError(error, "UNSUPPORTED", "probe").message };
      }
    },
    create: () => createBackend(new CpuDriver(resolved)),
  };
}

/** Returns a backend on the CPU, to be initialised with `init()`. Throws like `cpu`. */
export function createCpuBackend(options: CpuOptions = {}): ComputeBackend {
  return cpu(options).create();
}
