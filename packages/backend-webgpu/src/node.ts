import { type AdapterListing, listAdaptersOf } from "./adapters.js";
import { makeProvider } from "./backend.js";
import { type DawnOptions, findDawn, findEveryDawn } from "./dawn.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { WebGpuOptions } from "./options.js";

export type { DawnOptions } from "./dawn.js";
export * from "./index.js";
export { loadTuning, saveTuning } from "./tuning/files.js";

/** In Node.js, WebGPU is Dawn, from the npm package `webgpu`. */
export interface NodeWebGpuOptions extends WebGpuOptions {
  /** How Dawn is started. Default: as in browsers. */
  readonly dawn?: DawnOptions;
}

/** Offers WebGPU to a registry. */
export function webgpu(options: NodeWebGpuOptions = {}): WebGpuProvider {
  return makeProvider(() => findDawn(options.dawn, options.tier), options);
}

/** A backend on WebGPU, not yet initialised. `init` throws `UNSUPPORTED` where there is no device. */
export function createWebGpuBackend(options: NodeWebGpuOptions = {}): WebGpuBackend {
  return webgpu(options).create();
}

/**
 * The adapters of this machine, without opening a device. Those that no `powerPreference` leads to are
 * opened by the option `dawn.adapter`. Throws `UNSUPPORTED` where Dawn cannot be loaded.
 */
export async function listAdapters(
  options: Pick<NodeWebGpuOptions, "dawn"> = {},
): Promise<readonly AdapterListing[]> {
  return listAdaptersOf(await findEveryDawn(options.dawn));
}
