/**
 * `@backplane/core/operations`: what core knows about each operation, one by one, for programs that have only some of
 * them; see `createBackendOf`. All of them, by name: `operations` of `@backplane/core`.
 */
export { argReduce } from "./ops/arg-reduce/index.js";
export { attention } from "./ops/attention/index.js";
export { attentionGradient } from "./ops/attention-gradient/index.js";
export { binary } from "./ops/binary/index.js";
export { conv2d } from "./ops/conv2d/index.js";
export { conv2dFilterGradient } from "./ops/conv2d-filter-gradient/index.js";
export { conv2dInputGradient } from "./ops/conv2d-input-gradient/index.js";
export { copy } from "./ops/copy/index.js";
export { gather } from "./ops/gather/index.js";
export { batchedGemm, gemm } from "./ops/gemm/index.js";
export { map } from "./ops/map/index.js";
export { normalize } from "./ops/normalize/index.js";
export { normalizeGradient } from "./ops/normalize-gradient/index.js";
export { pool2d } from "./ops/pool2d/index.js";
export { pool2dGradient } from "./ops/pool2d-gradient/index.js";
export { quantize } from "./ops/quantize/index.js";
export { quantizedGemm } from "./ops/quantized-gemm/index.js";
export { random } from "./ops/random/index.js";
export { reduce } from "./ops/reduce/index.js";
export { resize2d } from "./ops/resize2d/index.js";
export { resize2dGradient } from "./ops/resize2d-gradient/index.js";
export { rope } from "./ops/rope/index.js";
export { scan } from "./ops/scan/index.js";
export { scatter } from "./ops/scatter/index.js";
export { select } from "./ops/select/index.js";
export { softmax } from "./ops/softmax/index.js";
export { softmaxGradient } from "./ops/softmax-gradient/index.js";
export { sort } from "./ops/sort/index.js";
export { unary } from "./ops/unary/index.js";
