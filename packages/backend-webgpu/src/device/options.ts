import type { DeviceLimits } from "./features.js";
import type { NativeAdapter, NativeDevice } from "./native.js";
import type { WebGpuTier } from "./tiers.js";

/**
 * - `plain`: f32 arithmetic.
 * - `split-f16`: each number is split into two of f16, whose products matrix units add up in f32. Scaled
 *   by a power of two for each row of op(A) and column of op(B), nothing overflows. The error of a result
 *   is below 2 gamma_(k+3) sum |a| |b| for all inputs (plain: gamma_(k+3) sum |a| |b|; gamma_n = n eps /
 *   (1 - n eps), eps = 2^-23). Where that takes more than two numbers of f16, the device finds it out and
 *   computes plainly the tile of results around: for rows and columns with NaN, infinities, or numbers more
 *   than 28 (k = 16) to 34 (k = 65,536) powers of two below the largest of the line; zeros do not count.
 *   Takes scratch memory as large as the operands. Experimental, like the matrix units of WebGPU.
 */
export type F32Products = "plain" | "split-f16";

export const f32ProductNames: readonly F32Products[] = ["plain", "split-f16"];

/** What decides which device is used, and what of it. */
export interface DeviceOptions {
  /** Which adapter to prefer where there are several. Default: high-performance. */
  readonly powerPreference?: "high-performance" | "low-power";
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
   * How large products of f32 matrices are computed (gemm, batchedGemm, and convolutions that are
   * products): see `F32Products`. Default: plain. Another way needs the tier "subgroup-matrices"; where the
   * device has none, products stay plain, and `capabilities.device.details` says so.
   */
  readonly f32Products?: F32Products;
}
