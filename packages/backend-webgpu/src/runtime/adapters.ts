import type { DeviceDescription } from "@backplane/core";
import type { DeviceLimits, NativeGpu, WebGpuTier } from "../device/index.js";
import { inspectAdapter } from "./device.js";

/** An adapter that could be opened. */
export interface AdapterListing {
  readonly device: DeviceDescription;
  /** The highest tier that it has without experimental features; `tierReason` says why no higher. */
  readonly tier: WebGpuTier;
  readonly tierReason: string;
  readonly limits: DeviceLimits & { readonly maxBufferSize: number };
  /** The values of the option `powerPreference` that select it. Empty: it can only be selected in other ways. */
  readonly powerPreferences: readonly ("high-performance" | "low-power")[];
}

const requests: readonly GPURequestAdapterOptions[] = [
  { powerPreference: "high-performance" },
  { powerPreference: "low-power" },
  {},
  { forceFallbackAdapter: true },
];

/** Returns the adapters that these find, each once, in the order in which they are found. Opens no device. */
export async function listAdaptersOf(gpus: readonly NativeGpu[]): Promise<readonly AdapterListing[]> {
  const found = new Map<string, AdapterListing>();
  for (const [i, gpu] of gpus.entries())
    for (const request of requests) {
      const adapter = await gpu.requestAdapter(request).catch(() => null);
      if (adapter === null) continue;
      const { powerPreference } = request;
      // Only the first one is found by a preference alone.
      const leading = i === 0 && powerPreference !== undefined ? [powerPreference] : [];
      const listing = describe(adapter);
      const key = JSON.stringify(listing);
      const powerPreferences = [...(found.get(key)?.powerPreferences ?? []), ...leading];
      found.set(key, { ...listing, powerPreferences });
    }
  return [...found.values()];
}

function describe(adapter: GPUAdapter): Omit<AdapterListing, "powerPreferences"> {
  const { description, choice } = inspectAdapter(adapter, {});
  return {
    device: description,
    tier: choice.tier,
    tierReason: choice.reason,
    limits: { ...choice.limits, maxBufferSize: adapter.limits.maxBufferSize },
  };
}
