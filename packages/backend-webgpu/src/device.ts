import { BackendError, type DeviceDescription } from "@backplane/core";
import type { DeviceFeatures } from "./context.js";
import type { ForcedVariants } from "./kernels/forced.js";

/** What both entry points take. */
export interface WebGpuOptions {
  /** Which adapter to prefer where there are several. Default: high-performance. */
  readonly powerPreference?: GPUPowerPreference;
  /** Freed device memory is kept for reuse up to this many bytes. Default 512 MiB. */
  readonly poolBytes?: number;
  /** Uses this device instead of opening one. It is not destroyed by the backend; all else is. */
  readonly device?: GPUDevice;
  /** Names the device in the tools of browsers. Default: backplane. */
  readonly label?: string;
  /** WebGPU features to leave unused although the device has them; for tests and comparisons. */
  readonly disableFeatures?: readonly string[];
  /**
   * Kernels to use whatever the shape, by operation and name (see `variantNames`); for tests and
   * comparisons. A variant that does not fit a shape, or is not possible on the device, is passed over.
   */
  readonly variants?: ForcedVariants;
}

/** An open device with what kernels and callers want to know of it. */
export interface OpenDevice {
  readonly device: GPUDevice;
  readonly description: DeviceDescription;
  readonly features: DeviceFeatures;
  /** The largest storage buffer that can be made and bound whole. */
  readonly maxBufferBytes: number;
  /** Whether closing the backend destroys the device. */
  readonly owned: boolean;
}

/** Finds an adapter, or throws `UNSUPPORTED` with the reason why there is none. */
export async function requestAdapter(gpu: GPU | undefined, options: WebGpuOptions): Promise<GPUAdapter> {
  if (gpu === undefined) throw unsupported("this environment has no WebGPU (navigator.gpu is missing)");
  const { powerPreference = "high-performance" } = options;
  let adapter: GPUAdapter | null;
  try {
    adapter = await gpu.requestAdapter({ powerPreference });
  } catch (cause) {
    throw unsupported(`the search for a WebGPU adapter failed: ${String(cause)}`, cause);
  }
  if (adapter === null)
    throw unsupported("WebGPU is present but finds no adapter (no GPU, or no driver that it accepts)");
  return adapter;
}

/** Opens a device with all that the adapter offers and kernels may use. */
export async function openDevice(adapter: GPUAdapter, options: WebGpuOptions): Promise<OpenDevice> {
  const disabled = new Set(options.disableFeatures);
  const wanted = wantedFeatures.filter((feature) => adapter.features.has(feature) && !disabled.has(feature));
  const device = await adapter.requestDevice({
    label: options.label ?? "backplane",
    requiredFeatures: wanted as GPUFeatureName[],
    requiredLimits: Object.fromEntries(raisedLimits.map((limit) => [limit, adapter.limits[limit]])),
  });
  return { ...inspect(device, adapter.info, disabled), owned: true };
}

/** Uses a device that someone else opened. */
export function adoptDevice(device: GPUDevice, options: WebGpuOptions): OpenDevice {
  return { ...inspect(device, device.adapterInfo, new Set(options.disableFeatures)), owned: false };
}

const wantedFeatures = ["shader-f16", "subgroups", "chromium-experimental-subgroup-matrix"];

/** Limits that devices give out only if asked, to be raised to what the adapter has. */
const raisedLimits = [
  "maxBufferSize",
  "maxStorageBufferBindingSize",
  "maxStorageBuffersPerShaderStage",
  "maxComputeWorkgroupStorageSize",
  "maxComputeInvocationsPerWorkgroup",
  "maxComputeWorkgroupSizeX",
  "maxComputeWorkgroupSizeY",
  "maxComputeWorkgroupSizeZ",
  "maxComputeWorkgroupsPerDimension",
] as const;

/** What Chromium's experimental extension adds to the description of an adapter. */
interface SubgroupMatrixConfiguration {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

function inspect(
  device: GPUDevice,
  info: GPUAdapterInfo,
  disabled: ReadonlySet<string>,
): Omit<OpenDevice, "owned"> {
  const has = (feature: string) => device.features.has(feature) && !disabled.has(feature);
  const { limits } = device;
  const shaderF16 = has("shader-f16");
  const subgroups = has("subgroups");
  const matrices = shaderF16 && subgroups && has("chromium-experimental-subgroup-matrix");
  return {
    device,
    description: describeAdapter(info, wantedFeatures.filter(has)),
    features: {
      shaderF16,
      subgroups,
      subgroupMinSize: info.subgroupMinSize ?? 0,
      subgroupMaxSize: info.subgroupMaxSize ?? 0,
      subgroupMatrices: matrices ? halfMatrices(info) : [],
      limits: {
        maxComputeWorkgroupStorageSize: limits.maxComputeWorkgroupStorageSize,
        maxComputeInvocationsPerWorkgroup: limits.maxComputeInvocationsPerWorkgroup,
        maxComputeWorkgroupSizeX: limits.maxComputeWorkgroupSizeX,
        maxComputeWorkgroupSizeY: limits.maxComputeWorkgroupSizeY,
        maxComputeWorkgroupsPerDimension: limits.maxComputeWorkgroupsPerDimension,
        maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
      },
    },
    maxBufferBytes: Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize),
  };
}

function halfMatrices(info: GPUAdapterInfo): string[] {
  const extended = info as { subgroupMatrixConfigs?: Iterable<SubgroupMatrixConfiguration> };
  return [...(extended.subgroupMatrixConfigs ?? [])]
    .filter((config) => config.componentType === "f16" && config.resultComponentType === "f32")
    .map(({ M, N, K }) => `${M}x${N}x${K}`);
}

/** For people and logs. */
export function describeAdapter(info: GPUAdapterInfo, features: readonly string[]): DeviceDescription {
  const { vendor, architecture, device, description } = info;
  const text = [vendor, architecture, device, description].join(" ").toLowerCase();
  // Browsers give little more than vendor and architecture; Dawn's description is that of the driver.
  const name =
    device.replace(/-+$/, "") || [vendor, architecture].filter(Boolean).join(" ") || description || "GPU";
  const details: Record<string, string> = { vendor, architecture, device, description };
  if (features.length > 0) details.features = features.join(", ");
  return {
    kind: "gpu",
    name,
    // Not every emulation calls itself a fallback adapter.
    software: info.isFallbackAdapter || /swiftshader|llvmpipe|lavapipe|software|warp|basic render/.test(text),
    details: Object.fromEntries(Object.entries(details).filter(([, value]) => value !== "")),
  };
}

function unsupported(reason: string, cause?: unknown): BackendError {
  return new BackendError("UNSUPPORTED", `init: ${reason}`, { operation: "init", cause });
}
