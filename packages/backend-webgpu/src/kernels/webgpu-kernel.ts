import type { Operation } from "@backplane/core";

/** What an export of `@backplane/backend-webgpu/kernels` is: how this backend does an operation of core, or several alike. */
export interface WebGpuKernel {
  readonly operations: readonly Operation<never, object>[];
  /** Of no use outside of this package. */
  readonly entry: object;
  /** Kernels of other operations, whose problems those that are too large for one binding are divided into. */
  readonly parts: readonly WebGpuKernel[];
}
