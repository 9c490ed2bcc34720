export {
  arange,
  concatenate,
  full,
  oneHot,
  ones,
  stack,
  type TensorData,
  type TensorOptions,
  tensor,
  zeros,
} from "./creation.js";
export {
  type AttentionOptions,
  attention,
  conv2d,
  crossEntropy,
  dropout,
  layerNorm,
  maxPool2d,
  meanPool2d,
  type NormOptions,
  type PoolOptions,
  type RopeOptions,
  resize2d,
  rmsNorm,
  rope,
  type TransposedOptions,
  transposedConv2d,
} from "./functions.js";
export {
  Attention,
  type AttentionLayerOptions,
  Conv2d,
  type Conv2dOptions,
  Dropout,
  Embedding,
  type Layer,
  LayerNorm,
  Linear,
  RmsNorm,
} from "./layers/layers.js";
export { disposeParameters, loadParameters, parametersOf } from "./layers/parameters.js";
export { setFusion } from "./lazy/fusion.js";
export { Adam, type AdamOptions, AdamW } from "./optimizers/adam.js";
export { type Clipped, clipByNorm } from "./optimizers/clipping.js";
export { Optimizer } from "./optimizers/optimizer.js";
export {
  cosineSchedule,
  type Decline,
  linearSchedule,
  type Schedule,
  stepSchedule,
} from "./optimizers/schedules.js";
export { Sgd, type SgdOptions } from "./optimizers/sgd.js";
export type { Nested } from "./printing.js";
export { Random } from "./random.js";
export { withoutRecording } from "./recorder.js";
export { rules } from "./rules/index.js";
export {
  type Checkpoint,
  decodeSafetensors,
  encodeSafetensors,
  type LoadOptions,
  type Progress,
  parseSafetensors,
  readSafetensors,
  type SaveOptions,
  type Source,
  type StoredBytes,
  type StoredCheckpoint,
  safetensorsChunks,
} from "./safetensors/index.js";
export { scope } from "./scope.js";
export {
  type At,
  type GradientOptions,
  grad,
  type Ready,
  Tape,
  type ValueAndGradients,
  valueAndGrad,
} from "./tape.js";
export { type HostArray, type ReductionOptions, type ScanOptions, Tensor, where } from "./tensor.js";
export { PartitionView, type TileInfo } from "./view/partition-view.js";
export type { Shape } from "./view/shape.js";
export { type Layout, type Span, TensorView } from "./view/tensor-view.js";
