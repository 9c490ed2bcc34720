import type { WebGpuTier } from "./tiers.js";

/** What WebGPU tells of an adapter; empty where it tells nothing. In Node.js, `description` is the driver. */
export interface TuningAdapter {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
}

/** What a kernel is fast on: an adapter, and what is used of it. */
export interface TuningPlace {
  readonly adapter: TuningAdapter;
  readonly tier: WebGpuTier;
}
