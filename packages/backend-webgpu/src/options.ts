import { BackendError } from "@backplane/core";
import type { DeviceLimits } from "./features.js";
import { checkForced, type ForcedVariants } from "./kernels/forced.js";
import type { NativeAdapter, NativeDevice } from "./native.js";
import { limitNames, tierNames, type WebGpuTier } from "./tiers.js";
import { checkedTuning, type TuningData } from "./tuning/data.js";

/** What both entry points take. */
export interface WebGpuOptions {
  /** Which adapter to prefer where there are several. Default: high-performance. */
  readonly powerPreference?: "high-performance" | "low-power";
  /** Freed device memory is kept for reuse up to this many bytes. Default 512 MiB. */
  readonly poolBytes?: number;
  /**
   * Opens a device on this adapter instead of searching one. An adapter gives one device only, so a
   * lost one cannot be opened again.
   */
  readonly adapter?: NativeAdapter;
  /**
   * Uses this device instead of opening one. `dispose()` destroys what the backend made on it, and
   * leaves the device alive. Errors of others on it are not heard.
   */
  readonly device?: NativeDevice;
  /** Names the device in the tools of browsers. Default: backplane. */
  readonly label?: string;
  /**
   * The highest tier to use; less is used where the adapter has less. Default: shader-f16. Which one
   * was reached, and why no higher, is in `capabilities.device.details`.
   */
  readonly tier?: WebGpuTier;
  /**
   * No more than this of each limit is used, whatever the device allows; for tests and comparisons.
   * Whole numbers above 0; their units are those of `GPUSupportedLimits` (bytes, counts).
   */
  readonly limits?: Partial<DeviceLimits>;
  /**
   * WebGPU features to leave unused although the device has them; for tests and comparisons. So is
   * WGSL's `immediate_address_space`: without it, parameters of kernels go through a uniform buffer.
   */
  readonly disableFeatures?: readonly string[];
  /**
   * Kernels to use whatever the shape, by operation and name (see `variantNames`); for tests and
   * comparisons. A variant that does not fit a shape, or is not possible on the device, is passed over.
   */
  readonly variants?: ForcedVariants;
  /**
   * What `tune()` found in an earlier run: for each shape in it, the kernel to take. What comes from
   * another adapter, tier or version is ignored, and `log` told so. `variants` go before it.
   */
  readonly tuning?: TuningData | readonly TuningData[];
  /**
   * Gets a line when a device has been opened (adapter, driver, tier and why, limits), and one when an
   * operation first takes a kernel for a reason (which, and why); and lines about tuning. Default: none.
   */
  readonly log?: (line: string) => void;
}

/** Throws `INVALID_ARGUMENT`, with what is allowed, for values that no device could make sense of. */
export function checkOptions(options: WebGpuOptions): void {
  checkForced(options.variants ?? {});
  const { tier, limits = {}, poolBytes, log, tuning } = options;
  if (tuning !== undefined) checkedTuning(tuning, "webgpu", "tuning");
  if (tier !== undefined && !tierNames.includes(tier))
    throw refusal("tier", `is ${String(tier)}; allowed: ${tierNames.join(", ")}`);
  for (const [name, value] of Object.entries(limits as Readonly<Record<string, unknown>>)) {
    if (!(limitNames as readonly string[]).includes(name))
      throw refusal("limits", `has ${name}; allowed: ${limitNames.join(", ")}`);
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) > 0))
      throw refusal(`limits.${name}`, `is ${String(value)}; allowed: whole numbers above 0`);
  }
  if (poolBytes !== undefined && !(poolBytes >= 0))
    throw refusal("poolBytes", `is ${String(poolBytes)}; allowed: numbers from 0`);
  if (options.adapter !== undefined && options.device !== undefined)
    throw refusal("adapter", "is given, and so is device; allowed: one of the two");
  if (log !== undefined && typeof log !== "function")
    throw refusal("log", `is ${String(log)}; allowed: a function that takes a line`);
}

function refusal(argument: string, complaint: string): BackendError {
  return new BackendError("INVALID_ARGUMENT", `webgpu: ${argument} ${complaint}`, {
    operation: "webgpu",
    argument,
  });
}
