export {
  type Accuracy,
  checkAccuracy,
  type InexactBinaryKind,
  type InexactUnaryKind,
  inexactBinaryKinds,
  inexactUnaryKinds,
  rangeAt,
  type UnitsRange,
} from "./accuracy.js";
export type { AllocOptions, BackendState, ComputeBackend, HostBytes } from "./backend.js";
export type { Capabilities, DeviceDescription, Limits, MemoryStatistics, Numerics } from "./capabilities.js";
export { checkDescription } from "./check-driver.js";
export {
  type ChosenKernels,
  chooseKernels,
  importAdvice,
  type KernelOfOperations,
  type KernelOfOwn,
} from "./chosen.js";
export { createBackendOf, type DriverBackend, type KnownOperations } from "./create.js";
export { createBackend } from "./create-all.js";
export type {
  BackendDriver,
  DriverDescription,
  DriverEvents,
  DriverKernels,
  DriverRecording,
  Kernel,
  OwnKernel,
  PoolStatistics,
} from "./driver.js";
export * from "./dtype.js";
export * from "./errors.js";
export { type DeviceHandle, type DeviceSlice, newHandle, type Operand } from "./handles.js";
export { download, type HostArrayType, upload } from "./host-arrays.js";
export { Listeners } from "./listeners.js";
export { checkNames } from "./names.js";
export { Checks, type NamedRegion } from "./ops/checks.js";
export { type Cost, costOf } from "./ops/cost.js";
export { type Activation, activations, type EpilogueArguments } from "./ops/epilogue.js";
export * from "./ops/index.js";
export { resolveOperation } from "./ops/lookup.js";
export { OperationMethods } from "./ops/methods.js";
export {
  type DecisiveArgument,
  defineOperation,
  Fill,
  type Operation,
  type OperationDefinition,
} from "./ops/operation.js";
export {
  type Conv2dInputShapeArguments,
  type Conv2dShapeArguments,
  conv2dInputShape,
  conv2dOutputShape,
  type Pool2dShapeArguments,
  pool2dOutputShape,
} from "./ops/output-shapes.js";
export { type Binder, Reader } from "./ops/reader.js";
export type { Argument, ArgumentsOf, ArgumentTable, Scalar, ValueOf } from "./ops/table.js";
export { checkPlace, copyBetween } from "./pieces.js";
export {
  copyCall,
  fillCall,
  makeCall,
  nameOf,
  operationCall,
  type RecordedCall,
  withOperands,
} from "./recording/calls.js";
export type { Recording, RecordsCalls, RunChanges, Vary } from "./recording/recording.js";
export type { Region } from "./region.js";
export {
  type Availability,
  type BackendListing,
  type BackendProvider,
  BackendRegistry,
  type OpenedBackend,
} from "./registry.js";
export { openScope, Scope, withScope } from "./scope.js";
export * from "./small-floats.js";
export type { Question, Support } from "./support.js";
export type { LostAllocation, SwapReport } from "./swap.js";
export { SwitchableBackend } from "./switchable.js";
export { FallbackBackend, type FallbackOptions } from "./wrappers/fallback.js";
export type { FallbackEvent, FallbackOperation, FallbackReport } from "./wrappers/fallback-counts.js";
export { Faults } from "./wrappers/faults.js";
export { ForwardingBackend } from "./wrappers/forwarding.js";
export { checkTwoBackends } from "./wrappers/pair.js";
export * from "./wrappers/trace/index.js";
export { weakerOf } from "./wrappers/weaker.js";
