import { all } from "./all.js";
import { makeProvider } from "./backend.js";
import { findBrowserGpu } from "./find-browser.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { WebGpuOptions } from "./options.js";

export { listAdapters } from "./find-browser.js";
export * from "./index.js";

/**
 * Offers WebGPU to a registry. Throws `INVALID_ARGUMENT` for bad options and unknown names. A program with
 * one object for several packages must pass on only the options of this one.
 */
export function webgpu(options: WebGpuOptions = {}): WebGpuProvider {
  return makeProvider(findBrowserGpu, all, options);
}

/**
 * Returns a backend on WebGPU, not yet initialised. Throws like `webgpu`. `init` throws `UNSUPPORTED` if
 * there is no device.
 */
export function createWebGpuBackend(options: WebGpuOptions = {}): WebGpuBackend {
  return webgpu(options).create();
}
