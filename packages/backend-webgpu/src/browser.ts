import type { BackendProvider, ComputeBackend } from "@backplane/core";
import { type FindGpu, makeProvider } from "./backend.js";
import type { WebGpuOptions } from "./device.js";

export * from "./index.js";

/** Present in windows and in workers, where the browser has WebGPU and the page is a secure context. */
const findGpu: FindGpu = async () => (globalThis.navigator as Navigator | undefined)?.gpu;

/** Offers WebGPU to a registry. */
export function webgpu(options: WebGpuOptions = {}): BackendProvider {
  return makeProvider(findGpu, options);
}

/** A backend on WebGPU, not yet initialised. `init` throws `UNSUPPORTED` where there is no device. */
export function createWebGpuBackend(options: WebGpuOptions = {}): ComputeBackend {
  return webgpu(options).create();
}
