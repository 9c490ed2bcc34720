import type { TransformedConvolutions } from "@backplane/core";
import type { DeviceLimits } from "./features.js";
import type { NativeAdapter, NativeDevice } from "./native.js";
import type { WebGpuTier } from "./tiers.js";

/**
 * - `plain`: f32 arithmetic.
 * - `split-f16`: each number is split into two of f16, and matrix units add up their products in f32. Each
 *   row of op(A) and column of op(B) is scaled by a power of two, so that nothing overflows. The error of a
 *   result is below 2 gamma_(k+3) sum |a| |b| for all inputs (plain: gamma_(k+3) sum |a| |b|; gamma_n = n eps
 *   / (1 - n eps), eps = 2^-23). If that takes more than two numbers of f16, the device detects it and
 *   computes the tile of results around it plainly. This happens for rows and columns with NaN, infinities,
 *   or numbers more than 28 (k = 16) to 34 (k = 65,536) powers of two below the largest of the line; zeros do
 *   not count. In convolutions the images and the filters of output channels take the place of lines, the bound is
 *   2 gamma_(k+1) for k taps, and those of several groups stay plain. Takes scratch memory as large as the operands, with
 *   padding. Attention keeps the error bound that it has without the option; where two numbers of f16 are not enough for
 *   that, it computes rows, or a key head, plainly. Experimental, like the matrix units of WebGPU.
 */
export type F32Products = "plain" | "split-f16";

export const f32ProductNames: readonly F32Products[] = ["plain", "split-f16"];

/** Options that select the device and the parts of it to use. */
export interface DeviceOptions {
  /** The adapter to prefer if there are several. Default: high-performance. */
  readonly powerPreference?: "high-performance" | "low-power";
  /**
   * Opens a device on this adapter instead of searching for one. An adapter yields one device only, so a lost
   * device cannot be opened again.
   */
  readonly adapter?: NativeAdapter;
  /**
   * Uses this device instead of opening one. `dispose()` destroys what the backend made on it and leaves the
   * device alive. The backend ignores errors of other users of the device.
   */
  readonly device?: NativeDevice;
  /** Names the device in the tools of browsers. Default: backplane. */
  readonly label?: string;
  /**
   * The highest tier to use. The backend uses a lower one if the adapter lacks it;
   * `capabilities.device.details` has the tier reached and the reason why it is no higher. Default: shader-f16.
   */
  readonly tier?: WebGpuTier;
  /**
   * Upper bounds on each limit, whatever the device allows; for tests and comparisons. Whole numbers above 0,
   * in the units of `GPUSupportedLimits` (bytes, counts).
   */
  readonly limits?: Partial<DeviceLimits>;
  /**
   * WebGPU features to leave unused although the device has them; for tests and comparisons. So is
   * WGSL's `immediate_address_space`: without it, parameters of kernels go through a uniform buffer; and its
   * `pack2x16float`, which otherwise rounds results of f16 where it rounds to nearest even.
   */
  readonly disableFeatures?: readonly string[];
  /**
   * The method for large products of f32 matrices (gemm, batchedGemm, convolutions that are products, and attention);
   * see `F32Products`. Methods other than "plain" need the tier "subgroup-matrices"; if the device lacks it,
   * products stay plain, and `capabilities.device.details` says so. Default: plain.
   */
  readonly f32Products?: F32Products;
  /**
   * Whether conv2d and conv2dInputGradient may compute convolutions in f32 with 3 x 3 filters by transforms, with fewer
   * multiplications: never, or for tiles of up to 2 x 2 or 4 x 4 outputs, where that is faster. Their error is bounded by
   * the largest numbers around an output: see `Numerics.transformedConvolutions`, which then has this value. Takes up to
   * 128 MiB of scratch memory, and as much as 1.8 (2x2) or 4 (4x4) filters (twice, if the number of input channels is no
   * multiple of 16, or that of outputs no multiple of 4). Products within it are plain, whatever `f32Products` is. Default: never.
   */
  readonly transformedConvolutions?: TransformedConvolutions;
}
