/**
 * `@backplane/backend-cpu/bare`: the same backend with no kernels but those of the option `kernels`, so that a bundle
 * has no other.
 *
 *     import { cpu } from "@backplane/backend-cpu/bare";
 *     import { gemm, unary } from "@backplane/backend-cpu/kernels";
 *     const backend = cpu({ kernels: [gemm, unary] }).create();
 */
import { type BackendProvider, type ComputeBackend, createBackendOf } from "@backplane/core";
import { adviceOn, type CpuKernel, chosenKernels } from "./kernels/chosen.js";
import type { OwnCpuKernel } from "./kernels/kernel.js";
import { type CpuOptions, resolveOptions } from "./options.js";
import type { CpuParts } from "./parts.js";
import { makeProvider } from "./provider.js";

export type { CpuKernel } from "./kernels/chosen.js";
export type { CpuMemory, OwnCpuKernel } from "./kernels/kernel.js";
export type { ForcedVariants } from "./kernels/set.js";
export type { CpuOptions } from "./options.js";

export interface BareCpuOptions extends Omit<CpuOptions, "kernels" | "blas"> {
  /**
   * All that the backend computes: kernels of core's operations, from `@backplane/backend-cpu/kernels`, and kernels
   * for operations of your own. `supports` is false for any other operation, and calls of it throw `UNSUPPORTED`.
   */
  readonly kernels: readonly (CpuKernel | OwnCpuKernel)[];
}

/** A page that is not cross-origin isolated has no threads, and so loads nothing for them. */
const threadedQueue: CpuParts["threadedQueue"] = async () =>
  (await import("./queue/threaded.js")).ThreadedQueue;

/** As `cpu` of `@backplane/backend-cpu`. */
export function cpu(options: BareCpuOptions): BackendProvider {
  const { set, own } = chosenKernels((options as Partial<BareCpuOptions> | undefined)?.kernels);
  const known = { operations: set.definitions, advice: adviceOn };
  const parts: CpuParts = { set, native: undefined, threadedQueue };
  return makeProvider(resolveOptions({ ...options, kernels: own }, parts), (driver) =>
    createBackendOf(driver, known),
  );
}

/** Returns a backend on the CPU, to be initialised with `init()`. Throws like `cpu`. */
export function createCpuBackend(options: BareCpuOptions): ComputeBackend {
  return cpu(options).create();
}
