import type { AdapterFamily } from "./families.js";

/** What `select.ts` functions may base a choice on: plain data, so that they are tested without a device. */
export interface DeviceFeatures {
  /** The WGSL extension `f16` may be enabled. Kernels must not need it: see `halves.ts`. */
  readonly shaderF16: boolean;
  /** The WGSL extension `subgroups` may be enabled. */
  readonly subgroups: boolean;
  /**
   * WGSL has `subgroup_id`, so that invocations know where in the workgroup their subgroup is, which nothing else
   * tells for certain. Default: false.
   */
  readonly subgroupIds?: boolean;
  /** Smallest and largest subgroup that the device may use; 0 where unknown. */
  readonly subgroupMinSize: number;
  readonly subgroupMaxSize: number;
  /**
   * The f16 shapes of `chromium_experimental_subgroup_matrix` that take f16 and give f32, as "MxNxK";
   * empty where the extension, or `f16` or `subgroups`, is missing.
   */
  readonly subgroupMatrices: readonly string[];
  /** Products of f32 may be computed by way of f16: the option `f32Products`. Default: false. */
  readonly splitsProducts?: boolean;
  readonly limits: DeviceLimits;
  /** Undefined: general. */
  readonly family?: AdapterFamily;
  /** What was found to be fastest on this device; undefined where nothing was tried. */
  readonly tuned?: TunedVariants | undefined;
}

/** The operations that have variants. The table of gemm serves batchedGemm and 1 x 1 convolutions, too. */
export type TunableOperation = "gemm" | "conv2d" | "attention" | "reduce";

/** Choices by measurement; see `tuning/`. A pure function of what it is asked. */
export interface TunedVariants {
  /** The variant to take for exactly this shape, if it was tried. */
  variantFor(operation: TunableOperation, shape: unknown): string | undefined;
}

/** Limits that kernels keep to, by their names and in the units of WebGPU's `GPUSupportedLimits`. */
export interface DeviceLimits {
  readonly maxComputeWorkgroupStorageSize: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupSizeX: number;
  readonly maxComputeWorkgroupSizeY: number;
  readonly maxComputeWorkgroupsPerDimension: number;
  readonly maxStorageBufferBindingSize: number;
}
