import { makeProvider } from "./backend.js";
import type { FindGpu } from "./device/index.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { WebGpuOptions } from "./options.js";
import { type AdapterListing, listAdaptersOf } from "./runtime/adapters.js";

export * from "./index.js";

/** Present in windows and in workers, where the browser has WebGPU and the page is a secure context. */
const findGpu: FindGpu = async () => (globalThis.navigator as Navigator | undefined)?.gpu;

/**
 * Offers WebGPU to a registry. Throws `INVALID_ARGUMENT` for options that cannot be, and for names of none: a
 * program that has one object for several packages passes on what is meant for this one.
 */
export function webgpu(options: WebGpuOptions = {}): WebGpuProvider {
  return makeProvider(findGpu, options);
}

/**
 * A backend on WebGPU, not yet initialised. Throws like `webgpu`; `init` throws `UNSUPPORTED` where there is no
 * device.
 */
export function createWebGpuBackend(options: WebGpuOptions = {}): WebGpuBackend {
  return webgpu(options).create();
}

/** The adapters that the browser shows, without opening a device; none where it has no WebGPU. */
export async function listAdapters(): Promise<readonly AdapterListing[]> {
  const gpu = await findGpu();
  return gpu === undefined ? [] : listAdaptersOf([gpu]);
}
