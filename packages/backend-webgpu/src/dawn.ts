import { BackendError } from "@backplane/core";
import type { NativeGpu, WebGpuTier } from "./device/index.js";

/** Settings with which Dawn starts. Default: as in browsers. */
export interface DawnOptions {
  /**
   * Toggles to switch on or off, by name, in addition to those of the backend: the tier "subgroup-matrices"
   * switches on `allow_unsafe_apis` and `vulkan_enable_f16_on_nvidia`, without which Dawn hides the feature.
   * Toggles such as `disable_robustness` and `skip_validation` trade safety for speed: a faulty kernel can
   * then crash the process or the driver.
   */
  readonly enable?: readonly string[];
  readonly disable?: readonly string[];
  /** Part of the name of the adapter to use, in its letter case; `listAdapters()` has the names. */
  readonly adapter?: string;
}

/**
 * Toggles of Dawn that are off unless the caller switches them on. Without this one, Dawn clears
 * workgroup memory with instructions of its own: it is zeroed all the same, an NVIDIA H200 is as fast
 * (measured), and SwiftShader compiles kernels with workgroup memory two to three times as fast.
 */
const switchedOff: readonly string[] = ["use_vulkan_zero_initialize_workgroup_memory_extension"];

/** Toggles without which Dawn does not offer subgroup matrices: in general, and on NVIDIA. */
const matrixToggles: readonly string[] = ["allow_unsafe_apis", "vulkan_enable_f16_on_nvidia"];

/** Returns the flags for `create` of the package `webgpu`. The caller's choice of a toggle overrides all others. */
export function dawnFlags(dawn: DawnOptions = {}, tier?: WebGpuTier): string[] {
  const { enable = [], disable = [], adapter } = dawn;
  const ours = tier === "subgroup-matrices" ? matrixToggles : [];
  const on = new Set([...ours.filter((name) => !disable.includes(name)), ...enable]);
  const off = new Set([...switchedOff.filter((name) => !enable.includes(name)), ...disable]);
  return [
    ...(adapter !== undefined ? [`adapter=${adapter}`] : []),
    ...(on.size > 0 ? [`enable-dawn-features=${[...on].join(",")}`] : []),
    ...(off.size > 0 ? [`disable-dawn-features=${[...off].join(",")}`] : []),
  ];
}

/**
 * Dawn aborts the process if its root object is collected while a device still lives, and a device can
 * outlive the backend that opened it. So there is one root object for each set of toggles, kept for good; it
 * costs little and does not keep the process running.
 */
const instances = new Map<string, NativeGpu>();

/** Dawn with these options. */
export async function findDawn(dawn?: DawnOptions, tier?: WebGpuTier): Promise<NativeGpu> {
  const flags = dawnFlags(dawn, tier);
  const key = flags.join(";");
  const known = instances.get(key);
  if (known !== undefined) return known;
  const { create } = await loadDawn();
  // Another search may have been faster.
  const instance = instances.get(key) ?? create(flags);
  instances.set(key, instance);
  return instance;
}

/** Returns Dawn once for each adapter that it knows; without a name, it shows only its first choice. */
export async function findEveryDawn(dawn?: DawnOptions): Promise<NativeGpu[]> {
  if (dawn?.adapter !== undefined) return [await findDawn(dawn)];
  const names = adapterNames(await findDawn({ ...dawn, adapter: "(which ones?)" }));
  const named = (await names).map((adapter) => findDawn({ ...dawn, adapter }));
  return Promise.all([findDawn(dawn), ...named]);
}

/** Dawn has no call that lists adapters, but the error about an unknown adapter lists them. */
async function adapterNames(gpu: NativeGpu): Promise<readonly string[]> {
  try {
    await gpu.requestAdapter();
    return [];
  } catch (error) {
    const names = Array.from(String(error).matchAll(/\bname: '([^\n]*)'/g), ([, name]) => name!);
    return [...new Set(names)];
  }
}

async function loadDawn(): Promise<{ create(flags: string[]): NativeGpu }> {
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
