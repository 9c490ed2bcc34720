/** What both entry points export alike. None of it needs WebGPU's types: see `native.ts`. */
export type { AdapterListing } from "./device/adapters.js";
export type { DeviceLimits, TunableOperation } from "./device/features.js";
export type { NativeAdapter, NativeBuffer, NativeDevice } from "./device/native.js";
export type { WebGpuTier } from "./device/tiers.js";
export {
  type ExportedBuffer,
  type ImportOptions,
  isWebGpuBackend,
  type WarmupOptions,
  type WarmupReport,
  type WebGpuBackend,
  type WebGpuProvider,
} from "./interop.js";
export { type ForcedVariants, variantNames } from "./kernels/forced.js";
export type { F32Products, WebGpuOptions } from "./options.js";
export type { Profile, ProfileCalls, ProfileOptions, ProfileRow } from "./profile/profile.js";
export type { ChromeTrace, ChromeTraceEvent } from "./profile/trace.js";
export type {
  TunedShape,
  TuningAdapter,
  TuningData,
  TuningEntry,
  WindowShape,
} from "./tuning/data.js";
export type { DroppedVariant, SkippedShape, TuneOptions, TuneReport } from "./tuning/report.js";
