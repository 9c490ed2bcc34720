import { BackendError, checkNames } from "@backplane/core";
import type { DawnOptions } from "./dawn.js";
import { type DeviceOptions, f32ProductNames, limitNames, tierFeatures, tierNames } from "./device/index.js";
import { checkForced, type ForcedVariants } from "./kernels/forced.js";
import { IMMEDIATE_FEATURE } from "./program/program.js";
import { TIMESTAMP_FEATURE } from "./runtime/measuring.js";
import { checkedTuning, type TuningData } from "./tuning/data.js";

/** What both entry points take. */
export interface WebGpuOptions extends DeviceOptions {
  /** Freed device memory is kept for reuse up to this many bytes. Default 512 MiB. */
  readonly poolBytes?: number;
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
   * operation first takes a kernel for a reason (which, and why); and lines about tuning. What it throws
   * surfaces as an unhandled rejection and harms no call. Default: none.
   */
  readonly log?: (line: string) => void;
}

/** Those that the backend has a use for. */
const featureNames: readonly string[] = [...tierFeatures, TIMESTAMP_FEATURE, IMMEDIATE_FEATURE];

const optionNames: readonly (keyof WebGpuOptions)[] = [
  ...(["powerPreference", "poolBytes", "adapter", "device", "label", "tier", "limits"] as const),
  ...(["disableFeatures", "variants", "f32Products", "tuning", "log"] as const),
];

/**
 * Throws `INVALID_ARGUMENT`, with what is allowed, for names of no option, and for values that no device could
 * make sense of. What only Node.js has is known everywhere, so that a program has one set of options.
 */
export function checkOptions(options: WebGpuOptions & { readonly dawn?: DawnOptions }): void {
  checkNames("webgpu", options, [...optionNames, "dawn"]);
  if (options.dawn !== undefined)
    checkNames("webgpu", options.dawn, ["enable", "disable", "adapter"], "dawn");
  const { tier, limits = {}, disableFeatures = [], variants = {} } = options;
  const { poolBytes, log, tuning, f32Products } = options;
  checkForced(variants);
  if (tuning !== undefined) checkedTuning(tuning, "webgpu", "tuning");
  if (tier !== undefined && !tierNames.includes(tier))
    throw refusal("tier", `is ${String(tier)}; allowed: ${tierNames.join(", ")}`);
  if (f32Products !== undefined && !f32ProductNames.includes(f32Products))
    throw refusal("f32Products", `is ${String(f32Products)}; allowed: ${f32ProductNames.join(", ")}`);
  if (f32Products === "split-f16" && tier !== "subgroup-matrices")
    throw refusal("f32Products", 'is split-f16; allowed: with tier "subgroup-matrices"');
  checkNames("webgpu", limits, limitNames, "limits");
  for (const [name, value] of Object.entries(limits as Readonly<Record<string, unknown>>)) {
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) > 0))
      throw refusal(`limits.${name}`, `is ${String(value)}; allowed: whole numbers above 0`);
  }
  if (!Array.isArray(disableFeatures))
    throw refusal("disableFeatures", `is ${String(disableFeatures)}; allowed: a list of names`);
  const disabled: Readonly<Record<string, boolean>> = Object.fromEntries(
    disableFeatures.map((name) => [name, true]),
  );
  checkNames("webgpu", disabled, featureNames, "disableFeatures");
  if (poolBytes !== undefined && !(poolBytes >= 0))
    throw refusal("poolBytes", `is ${String(poolBytes)}; allowed: numbers from 0`);
  if (options.adapter !== undefined && options.device !== undefined)
    throw refusal("adapter", "is given, and so is device; allowed: one of the two");
  if (log !== undefined && typeof log !== "function")
    throw refusal("log", `is ${String(log)}; allowed: a function that takes a line`);
}

/** The options with a log that throws nothing, since it is called in the middle of things. */
export function harmlessLog(options: WebGpuOptions): WebGpuOptions {
  const { log } = options;
  if (log === undefined) return options;
  const harmless = (line: string): void => {
    try {
      log(line);
    } catch (error) {
      void Promise.reject(error);
    }
  };
  return { ...options, log: harmless };
}

function refusal(argument: string, complaint: string): BackendError {
  return new BackendError("INVALID_ARGUMENT", `webgpu: ${argument} ${complaint}`, {
    operation: "webgpu",
    argument,
  });
}
