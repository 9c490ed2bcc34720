import type { DeviceLimits } from "./features.js";

/**
 * The features that kernels may use. Each tier adds one thing to the one before:
 *
 * - `baseline`: no optional features. If requested by name, it also keeps to WebGPU's default limits: 16 KiB
 *   of workgroup memory, 256 invocations, bindings of 128 MiB, buffers of 256 MiB.
 * - `subgroups`: the feature of that name, and all limits of the adapter.
 * - `shader-f16`: the feature of that name.
 * - `subgroup-matrices`: `chromium-experimental-subgroup-matrix`. Experimental, and never chosen unless
 *   requested: the extension is unfinished, and Dawn hides it behind an unsafe toggle.
 */
export type WebGpuTier = "baseline" | "subgroups" | "shader-f16" | "subgroup-matrices";

/** The properties of an adapter, or of a given device; both `GPUAdapter` and `GPUDevice` have them. */
export interface TierOffer {
  readonly features: { has(name: string): boolean };
  readonly limits: Readonly<Record<RequestedLimit, number>>;
  /** Lower case, as adapters report it. */
  readonly vendor: string;
  /** The shapes of f16 matrices with f32 results; see `DeviceFeatures.subgroupMatrices`. */
  readonly matrices: readonly string[];
}

/** The options that decide on the tier. */
export interface TierOptions {
  readonly tier?: WebGpuTier;
  readonly limits?: Partial<DeviceLimits>;
  readonly disableFeatures?: readonly string[];
}

export interface TierChoice {
  /** The highest one whose own feature is there. One below may lack its feature; `reason` says so. */
  readonly tier: WebGpuTier;
  /** Why nothing beyond `tier` is used; empty if there is nothing beyond it. */
  readonly reason: string;
  /** Features to ask the adapter for, and to use. */
  readonly features: readonly string[];
  /** Limits to request from the adapter because they exceed WebGPU's defaults. */
  readonly requiredLimits: Readonly<Partial<Record<RequestedLimit, number>>>;
  /** Limits for kernels to keep to. */
  readonly limits: DeviceLimits;
}

/** WebGPU's default limits: every adapter has at least these. */
export const defaultLimits: DeviceLimits = {
  maxComputeWorkgroupStorageSize: 16_384,
  maxComputeInvocationsPerWorkgroup: 256,
  maxComputeWorkgroupSizeX: 256,
  maxComputeWorkgroupSizeY: 256,
  maxComputeWorkgroupsPerDimension: 65_535,
  maxStorageBufferBindingSize: 2 ** 27,
  maxStorageBuffersPerShaderStage: 8,
};

export const limitNames: readonly (keyof DeviceLimits)[] = Object.keys(
  defaultLimits,
) as (keyof DeviceLimits)[];

/**
 * The most that kernels bind. They count bytes and elements in 32 bits, and with the 4 GiB that some adapters bind, the
 * invocations beyond the last element would begin again at 0.
 */
const highestLimits: Partial<DeviceLimits> = { maxStorageBufferBindingSize: 2 ** 31 };

/** Limits that a device has only if they are requested. */
export type RequestedLimit = keyof DeviceLimits | (typeof otherLimits)[number];

const otherLimits = ["maxBufferSize", "maxComputeWorkgroupSizeZ"] as const;

const SUBGROUP_MATRIX = "chromium-experimental-subgroup-matrix";

/** The tiers in order, each with the feature that makes it. */
const ladder: readonly { readonly tier: WebGpuTier; readonly feature?: string }[] = [
  { tier: "baseline" },
  { tier: "subgroups", feature: "subgroups" },
  { tier: "shader-f16", feature: "shader-f16" },
  { tier: "subgroup-matrices", feature: SUBGROUP_MATRIX },
];

export const tierNames: readonly WebGpuTier[] = ladder.map(({ tier }) => tier);
export const tierFeatures: readonly string[] = ladder.flatMap(({ feature }) => feature ?? []);

const DEFAULT_TIER: WebGpuTier = "shader-f16";

/** Chooses the features of an adapter (or a given device) to use. Pure. */
export function chooseTier(offer: TierOffer, options: TierOptions): TierChoice {
  const highest = tierNames.indexOf(options.tier ?? DEFAULT_TIER);
  const features: string[] = [];
  const reasons: string[] = [];
  let tier: WebGpuTier = "baseline";
  for (const [i, rung] of ladder.entries()) {
    if (rung.feature === undefined) continue;
    const obstacle =
      i > highest ? aboveHighest(rung.tier, options) : missing(rung.feature, features, offer, options);
    if (obstacle === undefined) {
      features.push(rung.feature);
      tier = rung.tier;
    } else reasons.push(`no ${rung.tier}: ${obstacle}`);
  }
  const wholly = highest > 0;
  return {
    tier,
    reason: reasons.join("; "),
    features,
    requiredLimits: wholly ? requiredLimits(offer, options.limits ?? {}) : {},
    limits: usedLimits(offer, wholly, options.limits ?? {}),
  };
}

function aboveHighest(tier: WebGpuTier, options: TierOptions): string {
  if (options.tier !== undefined) return `the option tier is ${options.tier}`;
  return `experimental, only with the option tier: "${tier}"`;
}

/** Returns why a feature cannot be used; undefined if it can. `used` are the features of the tiers below. */
function missing(
  feature: string,
  used: readonly string[],
  offer: TierOffer,
  options: TierOptions,
): string | undefined {
  if (options.disableFeatures?.includes(feature)) return "switched off by the option disableFeatures";
  if (!offer.features.has(feature)) {
    const hidden = feature === "shader-f16" && offer.vendor === "nvidia";
    // Dawn distrusts NVIDIA's Vulkan drivers with it.
    const hint = hidden ? " (in Node.js, Dawn's toggle vulkan_enable_f16_on_nvidia adds it)" : "";
    return `the adapter lacks the feature ${feature}${hint}`;
  }
  if (feature !== SUBGROUP_MATRIX) return undefined;
  const needed = ["subgroups", "shader-f16"].filter((name) => !used.includes(name));
  if (needed.length > 0) return `needs ${needed.join(" and ")} too`;
  return offer.matrices.length > 0 ? undefined : "the adapter has no shape of f16 with f32 results";
}

function requiredLimits(
  offer: TierOffer,
  caps: Partial<DeviceLimits>,
): Partial<Record<RequestedLimit, number>> {
  // A request for less than a default is allowed, and yields the default.
  const capped = limitNames.map((name) => [name, Math.min(offer.limits[name], caps[name] ?? Infinity)]);
  return Object.fromEntries([...capped, ...otherLimits.map((name) => [name, offer.limits[name]])]);
}

function usedLimits(offer: TierOffer, wholly: boolean, caps: Partial<DeviceLimits>): DeviceLimits {
  const highest = wholly ? highestLimits : defaultLimits;
  const used = limitNames.map((name) => [
    name,
    Math.min(offer.limits[name], highest[name] ?? Infinity, caps[name] ?? Infinity),
  ]);
  return Object.fromEntries(used) as DeviceLimits;
}
