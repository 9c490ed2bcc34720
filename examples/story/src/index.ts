/** What runs in browsers too. */
export type { Checkpoint } from "./checkpoint/checkpoint.js";
export { type ByteSource, FileError, MemorySource, named } from "./checkpoint/file.js";
export { isModel, readCheckpoint } from "./checkpoint/formats.js";
export { type LoadedWeights, loadWeights, weightBytes } from "./checkpoint/load.js";
export { BLOCK, BlockMatrix } from "./matrix.js";
export { Meter } from "./meter.js";
export { Transformer } from "./model.js";
export { Sampler, type SamplerOptions } from "./sampler.js";
export type { Shape } from "./shape.js";
export { readLlama2cTokenizer } from "./tokenizer/llama2c.js";
export { TextJoiner, type Tokenizer } from "./tokenizer/tokenizer.js";
export {
  type LayerWeights,
  layerShapes,
  type ModelWeights,
  mappedLayer,
  type Weights,
} from "./weights.js";
export { shapes } from "./well-known.js";
export { type Watch, Writer } from "./writer.js";
