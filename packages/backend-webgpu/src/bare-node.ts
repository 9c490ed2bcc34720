/** `@backplane/backend-webgpu/bare` in Node.js: see `bare-browser.ts`. */
import { makeProvider } from "./backend.js";
import { chosenOf } from "./bare.js";
import type { BareWebGpuOptions } from "./bare-options.js";
import { checkOptions } from "./check-options.js";
import { type DawnOptions, findDawn, findEveryDawn } from "./dawn.js";
import type { WebGpuBackend, WebGpuProvider } from "./interop.js";
import { KernelSet } from "./kernels/set.js";
import { type AdapterListing, listAdaptersOf } from "./runtime/adapters.js";

export type { BareWebGpuOptions } from "./bare-options.js";
export type { DawnOptions } from "./dawn.js";
export type { WebGpuKernel } from "./kernels/webgpu-kernel.js";
export * from "./shared.js";

/** In Node.js, WebGPU is Dawn, from the npm package `webgpu`. */
export interface NodeBareWebGpuOptions extends BareWebGpuOptions {
  /** How Dawn is started. Default: as in browsers, which take this option and have no use for it. */
  readonly dawn?: DawnOptions;
}

/** As `webgpu` of `@backplane/backend-webgpu`. */
export function webgpu(given: NodeBareWebGpuOptions): WebGpuProvider {
  const { kernels, options } = chosenOf(given);
  return makeProvider(() => findDawn(options.dawn, options.tier), kernels, options);
}

/** Returns a backend on WebGPU, not yet initialised. Throws like `webgpu`. */
export function createWebGpuBackend(options: NodeBareWebGpuOptions): WebGpuBackend {
  return webgpu(options).create();
}

/** As `listAdapters` of `@backplane/backend-webgpu`. */
export async function listAdapters(
  options: Pick<NodeBareWebGpuOptions, "dawn"> = {},
): Promise<readonly AdapterListing[]> {
  checkOptions(options, new KernelSet({}, []));
  return listAdaptersOf(await findEveryDawn(options.dawn));
}
