import type { Accuracy } from "./accuracy.js";
import type { DType } from "./dtype.js";

/** The device behind a backend, for logs, tables and reports. */
export interface DeviceDescription {
  /** What does the arithmetic. */
  readonly kind: "cpu" | "gpu" | "other";
  /** For people, such as `NVIDIA H200` or `WebAssembly SIMD, 2 threads`. */
  readonly name: string;
  /** True where a GPU is emulated in software; false for real hardware, and for plain CPU backends. */
  readonly software: boolean;
  /** Whatever else identifies it: vendor, architecture, driver, features in use. */
  readonly details: Readonly<Record<string, string>>;
}

export interface Limits {
  /** The largest `alloc`, in bytes, at least 1 MiB. More throws `OUT_OF_MEMORY`. */
  readonly maxAllocationBytes: number;
}

/**
 * What a backend promises of its arithmetic beyond the tolerances that hold for all. A promise is
 * tested; the weaker value is always safe to declare and obliges callers not to rely on more.
 */
export interface Numerics {
  /**
   * `kept`: a NaN among the inputs of an output element makes that element NaN (max, min and relu
   * included), and invalid operations give NaN. `unspecified` (the default for WGSL, which lets
   * implementations assume that there are none): such elements may hold anything, other elements
   * are not affected.
   */
  readonly nan: "kept" | "unspecified";
  /** `kept`: infinities behave as in IEEE 754, and overflow gives one. `unspecified`: as for NaN. */
  readonly infinity: "kept" | "unspecified";
  /** `kept`: subnormal numbers are read and written as such. `flushed`: they may become zero. */
  readonly subnormals: "kept" | "flushed";
  /** `kept`: the sign of a zero follows IEEE 754. `unspecified`: zeros may come with either sign. */
  readonly signedZero: "kept" | "unspecified";
  /**
   * `nearest-even`: add, sub, mul, div and sqrt in f32 are correctly rounded, and so is each step
   * of a sum of products (fused or not): the tight grade of gemm's bound applies.
   * `unspecified`: errors of one unit in the last place per step.
   */
  readonly rounding: "nearest-even" | "unspecified";
  /** True: the same calls on the same data give the same bits on this device, every time. */
  readonly deterministic: boolean;
}

/** What a backend says of itself; available once `init()` has resolved. */
export interface Capabilities {
  readonly device: DeviceDescription;
  /** Element types that at least one operation takes; `supports()` answers per operation. */
  readonly dtypes: readonly DType[];
  readonly limits: Limits;
  readonly numerics: Numerics;
  /** How accurate single functions are. Default: none declared; only the least bounds hold, see `Accuracy`. */
  readonly accuracy?: Accuracy;
  /**
   * Whether `copyDtoHSync` works: the host sees the memory, and the thread that calls may wait. False:
   * it throws `UNSUPPORTED`, and `copyDtoH` is to be awaited instead.
   */
  readonly synchronousReads: boolean;
}

/** Counts kept by every backend. All sizes in bytes as asked for by the caller, unless said. */
export interface MemoryStatistics {
  /** Handles that are allocated and not yet freed. */
  readonly liveAllocations: number;
  readonly liveBytes: number;
  /** The largest `liveBytes` so far. */
  readonly peakBytes: number;
  /** Device memory held now, live or pooled for reuse, rounding and scratch included; never less than live. */
  readonly reservedBytes: number;
  /** The part of `reservedBytes` that nothing uses now and that is held for reuse; see `trim`. */
  readonly pooledBytes: number;
  /**
   * How often memory, scratch included, was found in the pool, and how often new memory had to be made,
   * since `init` opened the device. Both are 0 where the backend keeps no pool, or has no device.
   */
  readonly poolHits: number;
  readonly poolMisses: number;
}
