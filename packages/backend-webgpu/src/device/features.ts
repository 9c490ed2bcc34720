import type { OperationName, TransformedConvolutions } from "@backplane/core";
import type { AdapterFamily } from "./families.js";

/**
 * The facts on which `select.ts` functions may base a choice: plain data, so that they are tested without a device.
 */
export interface DeviceFeatures {
  /** The WGSL extension `f16` may be enabled. Kernels must not need it: see `halves.ts`. */
  readonly shaderF16: boolean;
  /** The WGSL extension `subgroups` may be enabled. */
  readonly subgroups: boolean;
  /**
   * WGSL has `subgroup_id`, the only certain way for invocations to know their subgroup's place in the
   * workgroup. Default: false.
   */
  readonly subgroupIds?: boolean;
  /** Smallest and largest subgroup that the device may use; 0 if unknown. */
  readonly subgroupMinSize: number;
  readonly subgroupMaxSize: number;
  /**
   * The f16 shapes of `chromium_experimental_subgroup_matrix` with f16 operands and f32 results, as "MxNxK";
   * empty if the extension, or `f16` or `subgroups`, is missing.
   */
  readonly subgroupMatrices: readonly string[];
  /** Products of f32 may be computed through f16: the option `f32Products`. Default: false. */
  readonly splitsProducts?: boolean;
  /** The option of that name. Default: never. */
  readonly transformedConvolutions?: TransformedConvolutions | undefined;
  readonly limits: DeviceLimits;
  /** Undefined: general. */
  readonly family?: AdapterFamily;
  /** The variants found to be fastest on this device; undefined if none were tried. */
  readonly tuned?: TunedVariants | undefined;
}

/** Choices by measurement; see `tuning/`. A pure function of its arguments. */
export interface TunedVariants {
  /**
   * The variant to take for exactly this shape, if it was tried. `operation` is the one whose table it is: that
   * of gemm serves batchedGemm and 1 x 1 convolutions, too.
   */
  variantFor(operation: OperationName, shape: unknown): string | undefined;
}

/** Limits that kernels keep to, by their names and in the units of WebGPU's `GPUSupportedLimits`. */
export interface DeviceLimits {
  readonly maxComputeWorkgroupStorageSize: number;
  readonly maxComputeInvocationsPerWorkgroup: number;
  readonly maxComputeWorkgroupSizeX: number;
  readonly maxComputeWorkgroupSizeY: number;
  readonly maxComputeWorkgroupsPerDimension: number;
  readonly maxStorageBufferBindingSize: number;
  readonly maxStorageBuffersPerShaderStage: number;
}
