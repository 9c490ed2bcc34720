/** Of `../matrix-units.ts`. */
export { attentionMatrixProgram } from "./matrices.wgsl.js";
export { ROUGH_KEYS } from "./matrix-loops.wgsl.js";
export { attendedValues, prepareMask, preparesMask } from "./prepared-mask.wgsl.js";
export { enqueueSplitAttention } from "./split/split.js";
