export { attention } from "./attention/index.js";
export { binary } from "./binary/index.js";
export { conv2d } from "./conv2d/index.js";
export { batchedGemm, gemm } from "./gemm/index.js";
export { normalize } from "./normalize/index.js";
export { random } from "./random/index.js";
export { reduce } from "./reduce/index.js";
export { softmax } from "./softmax/index.js";
export { unary } from "./unary/index.js";
