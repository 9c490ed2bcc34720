import { Checks, checkNames, transformedConvolutionNames } from "@backplane/core";
import type { DawnOptions } from "./dawn.js";
import { f32ProductNames, limitNames, tierFeatures, tierNames } from "./device/index.js";
import { checkForced } from "./kernels/forced.js";
import type { KernelSet } from "./kernels/set.js";
import type { WebGpuOptions } from "./options.js";
import { IMMEDIATE_FEATURE, PACKING_FEATURE } from "./program/program.js";
import { TIMESTAMP_FEATURE } from "./runtime/measuring.js";
import { checkedTuning } from "./tuning/check.js";
import { TunableShapes } from "./tuning/shapes.js";

/** The features that the backend can use. */
const featureNames: readonly string[] = [
  ...tierFeatures,
  TIMESTAMP_FEATURE,
  IMMEDIATE_FEATURE,
  PACKING_FEATURE,
];

const optionNames: readonly (keyof WebGpuOptions)[] = [
  ...(["powerPreference", "poolBytes", "adapter", "device", "label", "tier", "limits"] as const),
  ...(["disableFeatures", "variants", "f32Products", "tuning", "kernels", "log"] as const),
  "transformedConvolutions",
];

const checks = new Checks("webgpu");

/**
 * Throws `INVALID_ARGUMENT`, with the allowed values, for unknown names and for values that no device could
 * use. Options for Node.js are known everywhere, so that a program can have one set of options.
 */
export function checkOptions(
  options: WebGpuOptions & { readonly dawn?: DawnOptions },
  kernels: KernelSet,
): void {
  checkNames("webgpu", options, [...optionNames, "dawn"]);
  if (options.dawn !== undefined)
    checkNames("webgpu", options.dawn, ["enable", "disable", "adapter"], "dawn");
  const { tier, limits = {}, disableFeatures = [], variants = {} } = options;
  const { poolBytes, log, tuning, f32Products, transformedConvolutions } = options;
  checkForced(variants, kernels);
  if (tuning !== undefined) checkedTuning(tuning, "webgpu", "tuning", new TunableShapes(kernels));
  if (tier !== undefined && !tierNames.includes(tier))
    checks.fail("tier", `is ${String(tier)}; allowed: ${tierNames.join(", ")}`);
  if (f32Products !== undefined && !f32ProductNames.includes(f32Products))
    checks.fail("f32Products", `is ${String(f32Products)}; allowed: ${f32ProductNames.join(", ")}`);
  if (f32Products === "split-f16" && tier !== "subgroup-matrices")
    checks.fail("f32Products", 'is split-f16; allowed: with tier "subgroup-matrices"');
  if (transformedConvolutions !== undefined && !transformedConvolutionNames.includes(transformedConvolutions))
    checks.fail(
      "transformedConvolutions",
      `is ${String(transformedConvolutions)}; allowed: ${transformedConvolutionNames.join(", ")}`,
    );
  checkNames("webgpu", limits, limitNames, "limits");
  for (const [name, value] of Object.entries(limits as Readonly<Record<string, unknown>>)) {
    if (value !== undefined && !(Number.isSafeInteger(value) && (value as number) > 0))
      checks.fail(`limits.${name}`, `is ${String(value)}; allowed: whole numbers above 0`);
  }
  if (!Array.isArray(disableFeatures))
    checks.fail("disableFeatures", `is ${String(disableFeatures)}; allowed: a list of names`);
  const disabled: Readonly<Record<string, boolean>> = Object.fromEntries(
    disableFeatures.map((name) => [name, true]),
  );
  checkNames("webgpu", disabled, featureNames, "disableFeatures");
  if (poolBytes !== undefined && !(poolBytes >= 0))
    checks.fail("poolBytes", `is ${String(poolBytes)}; allowed: numbers from 0`);
  if (options.adapter !== undefined && options.device !== undefined)
    checks.fail("adapter", "is given, and so is device; allowed: one of the two");
  if (options.kernels !== undefined && !Array.isArray(options.kernels))
    checks.fail("kernels", `is ${String(options.kernels)}; allowed: a list of kernels`);
  if (log !== undefined && typeof log !== "function")
    checks.fail("log", `is ${String(log)}; allowed: a function that takes a line`);
}

/** Returns the options with a log that never throws, since it is called at arbitrary points. */
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
