/**
 * `@backplane/backend-webgpu/bare`: the same backend with no kernels but those of the option `kernels`, so that a
 * bundle has no other.
 *
 *     import { webgpu } from "@backplane/backend-webgpu/bare";
 *     import { gemm, unary } from "@backplane/backend-webgpu/kernels";
 *     const backend = webgpu({ kernels: [gemm, unary] }).create();
 */
import { makeProvider } from "./backend.js";
import { chosenOf } from "./bare.js";
import type { BareWebGpuOptions } from "./bare-options.js";
import { findBrowserGpu } from "./find-browser.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";

export type { BareWebGpuOptions } from "./bare-options.js";
export { listAdapters } from "./find-browser.js";
export type { WebGpuKernel } from "./kernels/webgpu-kernel.js";
export * from "./shared.js";

/** As `webgpu` of `@backplane/backend-webgpu`. */
export function webgpu(given: BareWebGpuOptions): WebGpuProvider {
  const { kernels, options } = chosenOf(given);
  return makeProvider(findBrowserGpu, kernels, options);
}

/** Returns a backend on WebGPU, not yet initialised. Throws like `webgpu`. */
export function createWebGpuBackend(options: BareWebGpuOptions): WebGpuBackend {
  return webgpu(options).create();
}
