export { attentionSegments } from "./attention.js";
export { convSegments } from "./conv2d.js";
export { binarySegments, unarySegments } from "./elementwise.js";
export { gemmSegments } from "./gemm.js";
export { reduceSegments } from "./reduce.js";
export { segmented } from "./segmented.js";
