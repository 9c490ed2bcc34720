import { all } from "./all.js";
import { makeProvider } from "./backend.js";
import { checkOptions } from "./check-options.js";
import { type DawnOptions, findDawn, findEveryDawn } from "./dawn.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import type { WebGpuOptions } from "./options.js";
import { type AdapterListing, listAdaptersOf } from "./runtime/adapters.js";

export type { DawnOptions } from "./dawn.js";
export * from "./index.js";
export { loadTuning, saveTuning } from "./tuning-files.js";

/** In Node.js, WebGPU is Dawn, from the npm package `webgpu`. */
export interface NodeWebGpuOptions extends WebGpuOptions {
  /** How Dawn is started. Default: as in browsers, which take this option and have no use for it. */
  readonly dawn?: DawnOptions;
}

/**
 * Offers WebGPU to a registry. Throws `INVALID_ARGUMENT` for bad options and unknown names. A program with
 * one object for several packages must pass on only the options of this one.
 */
export function webgpu(options: NodeWebGpuOptions = {}): WebGpuProvider {
  return makeProvider(() => findDawn(options.dawn, options.tier), all, options);
}

/**
 * Returns a backend on WebGPU, not yet initialised. Throws like `webgpu`. `init` throws `UNSUPPORTED` if
 * there is no device.
 */
export function createWebGpuBackend(options: NodeWebGpuOptions = {}): WebGpuBackend {
  return webgpu(options).create();
}

/**
 * Returns the adapters of this machine, without opening a device. To open one that no `powerPreference`
 * selects, use the option `dawn.adapter`. Throws `UNSUPPORTED` if Dawn cannot be loaded.
 */
export async function listAdapters(
  options: Pick<NodeWebGpuOptions, "dawn"> = {},
): Promise<readonly AdapterListing[]> {
  checkOptions(options, all.set);
  return listAdaptersOf(await findEveryDawn(options.dawn));
}
