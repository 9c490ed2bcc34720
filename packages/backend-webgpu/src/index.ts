/** What both entry points export alike. None of it needs WebGPU's types: see `native.ts`. */
export type { AdapterListing } from "./adapters.js";
export type { DeviceLimits, TunableOperation } from "./features.js";
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
export type { NativeAdapter, NativeBuffer, NativeDevice } from "./native.js";
export type { F32Products, WebGpuOptions } from "./options.js";
export type { Profile, ProfileCalls, ProfileOptions, ProfileRow } from "./profile.js";
export type { WebGpuTier } from "./tiers.js";
export type { ChromeTrace, ChromeTraceEvent } from "./trace.js";
export type {
  TunedShape,
  TuningAdapter,
  TuningData,
  TuningEntry,
  WindowShape,
} from "./tuning/data.js";
export type { DroppedVariant, SkippedShape, TuneOptions, TuneReport } from "./tuning/report.js";
