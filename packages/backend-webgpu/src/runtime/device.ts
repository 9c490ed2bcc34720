import { BackendError, type DeviceDescription } from "@backplane/core";
import type { DeviceFeatures, DeviceOptions, TuningPlace } from "../device/index.js";
import {
  chooseTier,
  familyOf,
  general,
  softwareFamily,
  type TierChoice,
  type TierOffer,
} from "../device/index.js";
import { measuringFeatures } from "./measuring.js";

/** An open device with the facts that kernels and callers need. */
export interface OpenDevice {
  readonly device: GPUDevice;
  readonly description: DeviceDescription;
  readonly features: DeviceFeatures;
  /** Tuning is of use here only if it comes from this place. */
  readonly place: TuningPlace;
  /** The largest buffer that can be made; bindings may show less of it. */
  readonly maxBufferBytes: number;
  /** Whether closing the backend destroys the device. */
  readonly owned: boolean;
}

/** Finds an adapter. Throws `UNSUPPORTED` with the reason if there is none. */
export async function requestAdapter(gpu: GPU | undefined, options: DeviceOptions): Promise<GPUAdapter> {
  if (options.adapter !== undefined) return options.adapter;
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

/** The source of devices, as far as it tells the features of WGSL; undefined if that is unknown. */
type Source = Pick<GPU, "wgslLanguageFeatures"> | undefined;

/** Opens a device with the features and limits that the tier uses of the adapter. */
export async function openDevice(
  adapter: GPUAdapter,
  options: DeviceOptions,
  gpu?: Source,
): Promise<OpenDevice> {
  const choice = chooseTier(offerOf(adapter, adapter.info), options);
  let device: GPUDevice;
  try {
    device = await adapter.requestDevice({
      label: options.label ?? "backplane",
      requiredFeatures: [
        ...(choice.features as GPUFeatureName[]),
        ...measuringFeatures(adapter, options.disableFeatures),
      ],
      requiredLimits: choice.requiredLimits,
    });
  } catch (cause) {
    const given = options.adapter === undefined ? "" : " that was given (an adapter gives one device only)";
    throw unsupported(`the adapter${given} gives no device: ${String(cause)}`, cause);
  }
  // If an adapter has no devices left, some platforms return one that is already lost.
  const lost = await lossOf(device);
  if (lost !== undefined) throw unsupported(`the adapter gives no device that works: ${lost.message}`);
  return { ...inspect(device, adapter.info, choice, options, gpu), owned: true };
}

/** Uses a device that someone else opened, and that still lives. */
export async function adoptDevice(
  device: GPUDevice,
  options: DeviceOptions,
  gpu?: Source,
): Promise<OpenDevice> {
  const lost = await lossOf(device);
  if (lost !== undefined)
    throw new BackendError(
      "DEVICE_LOST",
      `init: the device that was given is lost (${lost.reason}): ${lost.message}; allowed: a backend on another`,
      { operation: "init", argument: "device" },
    );
  const info = device.adapterInfo;
  const choice = chooseTier(offerOf(device, info), options);
  return { ...inspect(device, info, choice, options, gpu), owned: false };
}

/** Returns how the device was lost; undefined if it was not. */
function lossOf(device: GPUDevice): Promise<GPUDeviceLostInfo | undefined> {
  return Promise.race([device.lost, new Promise<undefined>((resolve) => setTimeout(resolve, 0))]);
}

/** Returns the facts about an adapter before a device is opened on it. */
export function inspectAdapter(
  adapter: GPUAdapter,
  options: DeviceOptions,
): { readonly description: DeviceDescription; readonly choice: TierChoice } {
  const choice = chooseTier(offerOf(adapter, adapter.info), options);
  return { description: describeAdapter(adapter.info, choice), choice };
}

/** The addition of Chromium's experimental extension to the description of an adapter. */
interface SubgroupMatrixConfiguration {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

function offerOf({ features, limits }: GPUAdapter | GPUDevice, info: GPUAdapterInfo): TierOffer {
  return { features, limits, vendor: info.vendor, matrices: halfMatrices(info) };
}

function inspect(
  device: GPUDevice,
  info: GPUAdapterInfo,
  choice: TierChoice,
  options: DeviceOptions,
  gpu: Source,
): Omit<OpenDevice, "owned"> {
  const has = (feature: string) => choice.features.includes(feature);
  const { vendor, architecture, device: chip, description } = info;
  return {
    device,
    description: describeAdapter(info, choice),
    features: {
      shaderF16: has("shader-f16"),
      subgroups: has("subgroups"),
      subgroupIds: gpu?.wgslLanguageFeatures?.has("subgroup_id") ?? false,
      subgroupMinSize: info.subgroupMinSize ?? 0,
      subgroupMaxSize: info.subgroupMaxSize ?? 0,
      subgroupMatrices: choice.tier === "subgroup-matrices" ? halfMatrices(info) : [],
      splitsProducts: options.f32Products === "split-f16",
      transformedConvolutions: options.transformedConvolutions,
      limits: choice.limits,
      family: familyOf(info),
      tuned: undefined,
    },
    place: { adapter: { vendor, architecture, device: chip, description }, tier: choice.tier },
    maxBufferBytes: device.limits.maxBufferSize,
  };
}

function halfMatrices(info: GPUAdapterInfo): string[] {
  const extended = info as { subgroupMatrixConfigs?: Iterable<SubgroupMatrixConfiguration> };
  return [...(extended.subgroupMatrixConfigs ?? [])]
    .filter((config) => config.componentType === "f16" && config.resultComponentType === "f32")
    .map(({ M, N, K }) => `${M}x${N}x${K}`);
}

/** For people and logs. */
function describeAdapter(info: GPUAdapterInfo, { features, tier, reason }: TierChoice): DeviceDescription {
  const { vendor, architecture, device, description } = info;
  // Browsers report little more than vendor and architecture; Dawn's description is that of the driver.
  const name =
    device.replace(/-+$/, "") || [vendor, architecture].filter(Boolean).join(" ") || description || "GPU";
  const details: Record<string, string> = { vendor, architecture, device, description };
  if (features.length > 0) details.features = features.join(", ");
  details.tier = reason === "" ? tier : `${tier} (${reason})`;
  return {
    kind: "gpu",
    name,
    software: softwareFamily(info) !== undefined,
    details: Object.fromEntries(Object.entries(details).filter(([, value]) => value !== "")),
  };
}

/** Returns the line for the log when a device has been opened. */
export function openingLine({ description, features, maxBufferBytes, owned }: OpenDevice): string {
  const { tier, description: driver } = description.details;
  const { limits } = features;
  return [
    `webgpu: ${owned ? "opened" : "was given"} ${description.name}${driver === undefined ? "" : ` (${driver})`}`,
    `tier ${tier}`,
    `kernels as for ${(features.family ?? general).name}`,
    `${sizeText(limits.maxComputeWorkgroupStorageSize)} of workgroup memory`,
    `${limits.maxComputeInvocationsPerWorkgroup} invocations`,
    `bindings of ${sizeText(limits.maxStorageBufferBindingSize)}`,
    `buffers of ${sizeText(maxBufferBytes)}`,
  ].join(", ");
}

/** In the largest unit that leaves a whole number. */
function sizeText(bytes: number): string {
  const unit = [30, 20, 10].find((power) => bytes >= 2 ** power && bytes % 2 ** power === 0);
  if (unit === undefined) return `${bytes} bytes`;
  return `${bytes / 2 ** unit} ${{ 30: "GiB", 20: "MiB", 10: "KiB" }[unit]}`;
}

function unsupported(reason: string, cause?: unknown): BackendError {
  return new BackendError("UNSUPPORTED", `init: ${reason}`, { operation: "init", cause });
}
