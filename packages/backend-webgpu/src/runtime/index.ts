/** Opens a device and runs programs on it. */
export type {
  BufferRegion,
  KernelContext,
  KernelDefinition,
  OperationContext,
  ParameterValues,
  Workgroups,
} from "./context.js";
export {
  adoptDevice,
  inspectAdapter,
  type OpenDevice,
  openDevice,
  openingLine,
  requestAdapter,
} from "./device.js";
export { ForeignBuffers } from "./foreign.js";
export { faultOf, Guard } from "./guard.js";
export { holding } from "./holding.js";
export { immediateBytes } from "./immediates.js";
export { loaded } from "./loaded.js";
export { measuringFeatures, TIMESTAMP_FEATURE } from "./measuring.js";
export { BUFFER_GRANULARITY, DeviceMemory, MemoryPool, roundedCapacity } from "./memory.js";
export { packsExactly } from "./packing.js";
export { PARAMETER_BLOCK_BYTES, ParameterBlock } from "./parameters.js";
export { type Layout, PipelineCache } from "./pipelines.js";
export { batchLimits } from "./policy.js";
export { CommandQueue } from "./queue.js";
export type { DispatchObserver } from "./queue-options.js";
export { Readback } from "./readback.js";
export { Recorder, type RecordingMeans } from "./recorder.js";
export { CommandRecording } from "./recording.js";
export type { ImportOptions } from "./sharing.js";
export { StagedUploads } from "./staged-uploads.js";
export { writeEdges } from "./transfers.js";
export { Uploads } from "./uploads.js";
export { WINDOW_ALIGNMENT, windowBytes } from "./windows.js";
