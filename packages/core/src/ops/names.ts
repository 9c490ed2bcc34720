import type { OperationName } from "./index.js";

/** A property for each operation, so that the compiler misses one that is left out. */
const named: Readonly<Record<OperationName, true>> = {
  gemm: true,
  batchedGemm: true,
  conv2d: true,
  conv2dInputGradient: true,
  conv2dFilterGradient: true,
  attention: true,
  reduce: true,
  unary: true,
  binary: true,
  softmax: true,
  softmaxGradient: true,
  random: true,
  normalize: true,
  normalizeGradient: true,
  copy: true,
  gather: true,
  scatter: true,
  rope: true,
  argReduce: true,
  pool2d: true,
  resize2d: true,
  pool2dGradient: true,
  resize2dGradient: true,
  map: true,
  select: true,
  quantizedGemm: true,
  quantize: true,
  scan: true,
  sort: true,
  attentionGradient: true,
};

/** The names of the operations that core defines. Here, apart from the operations: programs may have only some of these. */
export const operationNames: readonly OperationName[] = Object.keys(named) as OperationName[];
