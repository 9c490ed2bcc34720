import { BackendError, type BackendProvider, type ComputeBackend } from "@backplane/core";
import { makeProvider } from "./backend.js";
import type { WebGpuOptions } from "./device.js";

export * from "./index.js";

/** In Node.js, WebGPU is Dawn, from the npm package `webgpu`. */
export interface NodeWebGpuOptions extends WebGpuOptions {
  /**
   * Dawn's toggles to switch on or off, by name. The default is none: what the backend does then, it
   * does in browsers too. Toggles such as `disable_robustness` and `skip_validation` trade safety for
   * speed: a faulty kernel can then crash the process or the driver.
   */
  readonly dawn?: { readonly enable?: readonly string[]; readonly disable?: readonly string[] };
}

/** Offers WebGPU to a registry. */
export function webgpu(options: NodeWebGpuOptions = {}): BackendProvider {
  return makeProvider(() => findDawn(options), options);
}

/** A backend on WebGPU, not yet initialised. `init` throws `UNSUPPORTED` where there is no device. */
export function createWebGpuBackend(options: NodeWebGpuOptions = {}): ComputeBackend {
  return webgpu(options).create();
}

/**
 * Dawn aborts the process when its root object is collected while a device still lives, and a device
 * can outlive the backend that opened it. So there is one root object for each set of toggles, kept
 * for good; it costs little and does not keep the process running.
 */
const instances = new Map<string, GPU>();

async function findDawn(options: NodeWebGpuOptions): Promise<GPU> {
  const { enable = [], disable = [] } = options.dawn ?? {};
  const flags = [
    ...(enable.length > 0 ? [`enable-dawn-features=${enable.join(",")}`] : []),
    ...(disable.length > 0 ? [`disable-dawn-features=${disable.join(",")}`] : []),
  ];
  const key = flags.join(";");
  let instance = instances.get(key);
  if (instance === undefined) {
    const { create } = await loadDawn();
    instance = create(flags);
    instances.set(key, instance);
  }
  return instance;
}

async function loadDawn(): Promise<{ create(flags: string[]): GPU }> {
  try {
    return await import("webgpu");
  } catch (cause) {
    throw new BackendError(
      "UNSUPPORTED",
      `init: the npm package "webgpu" cannot be loaded on ${process.platform} ${process.arch}: ${String(cause)}`,
      { operation: "init", cause },
    );
  }
}
