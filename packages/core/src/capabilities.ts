import type { Accuracy } from "./accuracy.js";
import type { DType } from "./dtype.js";
import type { TransformedConvolutions } from "./ops/conv2d/transforms.js";

/** The device behind a backend, for logs, tables and reports. */
export interface DeviceDescription {
  /** The kind of hardware that does the arithmetic. */
  readonly kind: "cpu" | "gpu" | "other";
  /** A name for people, such as `NVIDIA H200` or `WebAssembly SIMD, 2 threads`. */
  readonly name: string;
  /** True if software emulates a GPU. False for real hardware and for plain CPU backends. */
  readonly software: boolean;
  /** Further identification: vendor, architecture, driver, features in use. */
  readonly details: Readonly<Record<string, string>>;
}

export interface Limits {
  /** The largest `alloc`, in bytes; at least 1 MiB. A larger one throws `OUT_OF_MEMORY`. */
  readonly maxAllocationBytes: number;
}

/**
 * Promises about arithmetic beyond the tolerances that hold for all backends. The conformance suite tests
 * each promise. The weaker value is always safe to declare; callers may then not rely on more.
 */
export interface Numerics {
  /**
   * `kept`: a NaN among the inputs of an output element makes that element NaN (also for max, min and relu),
   * and invalid operations give NaN. `unspecified`: such elements may hold anything; other elements are not
   * affected. WGSL guarantees no more, since implementations may assume that there are no NaNs.
   */
  readonly nan: "kept" | "unspecified";
  /** `kept`: infinities behave as in IEEE 754, and overflow gives one. `unspecified`: as for NaN. */
  readonly infinity: "kept" | "unspecified";
  /** `kept`: subnormal numbers are read and written unchanged. `flushed`: they may become zero. */
  readonly subnormals: "kept" | "flushed";
  /** `kept`: the sign of a zero follows IEEE 754. `unspecified`: zeros may come with either sign. */
  readonly signedZero: "kept" | "unspecified";
  /**
   * `nearest-even`: add, sub, mul, div and sqrt in f32 are correctly rounded, and so is each step of a sum of
   * products (fused or not). The tight grade of gemm's bound then applies. `unspecified`: each step may be
   * off by one unit in the last place.
   */
  readonly rounding: "nearest-even" | "unspecified";
  /** True if the same calls on the same data give the same bits on this device every time. */
  readonly deterministic: boolean;
  /**
   * How conv2d and conv2dInputGradient may compute convolutions in f32 with 3 x 3 filters, one group, and no stride or dilation.
   * `never`: within the bound of plain sums. `2x2`, `4x4`: also by transforms for tiles of m x m outputs, with
   * m = 2 or 4 (`convolutionTransforms`). Then the error of an output may be as large as
   *
   *   gamma_(channels + r) * F * sum over channels c of X_c * W_c      (r = 22, F = 64; r = 30, F = 752)
   *
   * plus that of the bias, with gamma_n = n eps / (1 - n eps), eps = 2^-23, W_c the largest |filter| of the channel,
   * and X_c the largest |input| within m - 1 rows and columns of those that the output depends on (both at least 2^-103).
   * So large neighbours of an output spoil it. If one of these inputs, or a weight, is NaN or infinite, or F sum X_c W_c, 4
   * or 33 X_c, or 2.25 W_c reaches 2^127, the output may be anything. Whole numbers need not stay exact. For the bound, see
   * docs/decisions/0027-transformed-convolutions.md. Default: never.
   */
  readonly transformedConvolutions?: TransformedConvolutions;
}

/** Properties of a backend; available once `init()` has resolved. */
export interface Capabilities {
  readonly device: DeviceDescription;
  /** Element types that at least one operation takes. For one operation ask `supports()`. */
  readonly dtypes: readonly DType[];
  readonly limits: Limits;
  readonly numerics: Numerics;
  /** Accuracy of single functions. Default: none is declared, and only the least bounds hold; see `Accuracy`. */
  readonly accuracy?: Accuracy;
  /**
   * Whether `copyDtoHSync` works: the host can see the memory, and the calling thread may wait. If false, it
   * throws `UNSUPPORTED`; await `copyDtoH` instead.
   */
  readonly synchronousReads: boolean;
}

/** Counts kept by every backend. Sizes are bytes as the caller requested them, unless stated otherwise. */
export interface MemoryStatistics {
  /** Handles that are allocated and not yet freed. */
  readonly liveAllocations: number;
  readonly liveBytes: number;
  /** The largest `liveBytes` so far. */
  readonly peakBytes: number;
  /**
   * Bytes of device memory held now, live or pooled for reuse, with rounding and scratch. Never less than
   * `liveBytes`.
   */
  readonly reservedBytes: number;
  /** The part of `reservedBytes` that is unused and held for reuse; see `trim`. */
  readonly pooledBytes: number;
  /**
   * How often memory (scratch included) came from the pool, and how often it had to be made, since `init`
   * opened the device. Both are 0 if the backend has no pool or no device.
   */
  readonly poolHits: number;
  readonly poolMisses: number;
}
