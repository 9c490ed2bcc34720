/** What both entry points export alike. None of it needs WebGPU's types: see `native.ts`. */

export type { DeviceLimits, TunableOperation } from "./device/features.js";
export type { NativeAdapter, NativeBuffer, NativeDevice } from "./device/native.js";
export type { F32Products } from "./device/options.js";
export type { TuningAdapter } from "./device/place.js";
export type { WebGpuTier } from "./device/tiers.js";
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
