export interface WarmupOptions {
  /** Hears of each kernel that is ready, and how many there are. */
  readonly onProgress?: (ready: number, kernels: number) => void;
}

export interface WarmupReport {
  /** Kernels that the plan needs. */
  readonly kernels: number;
  /** Those among them that were not compiled before; kernels with one text are compiled once. */
  readonly compiledPipelines: number;
}
