import { type BackendProvider, type ComputeBackend, createBackend } from "@backplane/core";
import { all } from "./all.js";
import { allKernels } from "./kernels/index.js";
import { type CpuOptions, resolveOptions, type VariantNames, variantNamesOf } from "./options.js";
import { makeProvider } from "./provider.js";

export { CpuDriver, type CpuNativeRegion } from "./driver.js";
export { type GemmVariant, gemmVariants } from "./kernels/index.js";
export type { CpuMemory, OwnCpuKernel } from "./kernels/kernel.js";
export type { ForcedVariants } from "./kernels/set.js";
export type { BlasOption } from "./native/find-blas.js";
export type { CpuOptions } from "./options.js";

/** The names that `CpuOptions.variants` accepts. */
export const variantNames: VariantNames = variantNamesOf(allKernels);

/**
 * Offers the CPU to a registry. Throws `INVALID_ARGUMENT` for bad options and unknown names. A program with
 * one object for several packages must pass on only the options of this one.
 */
export function cpu(options: CpuOptions = {}): BackendProvider {
  return makeProvider(resolveOptions(options, all), createBackend);
}

/** Returns a backend on the CPU, to be initialised with `init()`. Throws like `cpu`. */
export function createCpuBackend(options: CpuOptions = {}): ComputeBackend {
  return cpu(options).create();
}
