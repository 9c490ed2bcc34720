/**
 * What both entry points export alike. None of it needs types of WebGPU (see `native.ts`): so types are taken
 * from their files here and not from the doors of the rooms, which show such types, too.
 */

export type {
  DeviceLimits,
  F32Products,
  NativeAdapter,
  NativeBuffer,
  NativeDevice,
  TunableOperation,
  TuningAdapter,
  WebGpuTier,
} from "./device/index.js";
export { isWebGpuBackend, type WebGpuBackend, type WebGpuProvider } from "./interop.js";
export { type ForcedVariants, variantNames } from "./kernels/forced.js";
export type { WebGpuOptions } from "./options.js";
export type { Profile, ProfileCalls, ProfileOptions, ProfileRow } from "./profile/profile.js";
export type { ChromeTrace, ChromeTraceEvent } from "./profile/trace.js";
export type { AdapterListing } from "./runtime/adapters.js";
export type { ExportedBuffer, ImportOptions } from "./runtime/sharing.js";
export type { TunedShape, TuningData, TuningEntry, WindowShape } from "./tuning/data.js";
export type { DroppedVariant, SkippedShape, TuneOptions, TuneReport } from "./tuning/report.js";
export type { WarmupOptions, WarmupReport } from "./warmup/report.js";
