/**
 * The exports that all entry points share. None of them needs types of WebGPU (see `native.ts`). Types are
 * therefore imported from their own files and not from the index files of the folders, which also export such types.
 */

export type {
  DeviceLimits,
  F32Products,
  NativeAdapter,
  NativeBuffer,
  NativeDevice,
  TuningAdapter,
  WebGpuTier,
} from "./device/index.js";
export { isWebGpuBackend, type WebGpuBackend, type WebGpuProvider } from "./interop.js";
export type { ForcedVariants, VariantNames } from "./kernels/forced-variants.js";
export type { OwnWebGpuKernel } from "./kernels/own-kernel.js";
export type { WebGpuOptions } from "./options.js";
export type { Profile, ProfileCalls, ProfileOptions, ProfileRow } from "./profile/profile.js";
export type { ChromeTrace, ChromeTraceEvent } from "./profile/trace.js";
export type { AdapterListing } from "./runtime/adapters.js";
export type { ExportedBuffer, ImportOptions } from "./runtime/sharing.js";
export type { TuningData, TuningEntry } from "./tuning/data.js";
export type { DroppedVariant, SkippedShape, TuneOptions, TuneReport } from "./tuning/report.js";
export type { ImageShape, TunedShape, WindowShape } from "./tuning/tuned-shape.js";
export type { WarmupOptions, WarmupReport } from "./warmup/report.js";
