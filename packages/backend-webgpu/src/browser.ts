import { makeProvider } from "./backend.js";
import type { FindGpu } from "./device/index.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { WebGpuOptions } from "./options.js";
import { type AdapterListing, listAdaptersOf } from "./runtime/adapters.js";

export * from "./index.js";

/** Present in windows and in workers, if the browser has WebGPU and the page is a secure context. */
const findGpu: FindGpu = async () => (globalThis.navigator as Navigator | undefined)?.gpu;

/**
 * Offers WebGPU to a registry. Throws `INVALID_ARGUMENT` for bad options and unknown names. A program with
 * one object for several packages must pass on only the options of this one.
 */
export function webgpu(options: WebGpuOptions = {}): WebGpuProvider {
  return makeProvider(findGpu, options);
}

/**
 * Returns a backend on WebGPU, not yet initialised. Throws like `webgpu`. `init` throws `UNSUPPORTED` if
 * there is no device.
 */
export function createWebGpuBackend(options: WebGpuOptions = {}): WebGpuBackend {
  return webgpu(options).create();
}

/** Returns the adapters that the browser shows, without opening a device; none if it has no WebGPU. */
export async function listAdapters(): Promise<readonly AdapterListing[]> {
  const gpu = await findGpu();
  return gpu === undefined ? [] : listAdaptersOf([gpu]);
}
