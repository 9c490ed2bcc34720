import type { WebGpuTier } from "./tiers.js";

/** WebGPU's description of an adapter; empty if it has none. In Node.js, `description` is the driver. */
export interface TuningAdapter {
  readonly vendor: string;
  readonly architecture: string;
  readonly device: string;
  readonly description: string;
}

/** The environment in which a kernel was measured: an adapter, and the features in use. */
export interface TuningPlace {
  readonly adapter: TuningAdapter;
  readonly tier: WebGpuTier;
}
