import { operations as definitions } from "@backplane/core";
import { argReduce } from "./arg-reduce/index.js";
import { attention } from "./attention/index.js";
import { attentionGradient } from "./attention-gradient/index.js";
import { binary } from "./binary/index.js";
import { conv2d } from "./conv2d/index.js";
import { conv2dFilterGradient } from "./conv2d-filter-gradient/index.js";
import { conv2dInputGradient } from "./conv2d-input-gradient/index.js";
import { copy } from "./copy/index.js";
import { gather } from "./gather/index.js";
import { gemm } from "./gemm/index.js";
import { map } from "./map/index.js";
import { normalize } from "./normalize/index.js";
import { normalizeGradient } from "./normalize-gradient/index.js";
import { pool2d } from "./pool2d/index.js";
import { pool2dGradient } from "./pool2d-gradient/index.js";
import { quantize } from "./quantize/index.js";
import { quantizedGemm } from "./quantized-gemm/index.js";
import { random } from "./random/index.js";
import { reduce } from "./reduce/index.js";
import { resize2d } from "./resize2d/index.js";
import { resize2dGradient } from "./resize2d-gradient/index.js";
import { rope } from "./rope/index.js";
import { scan } from "./scan/index.js";
import { scatter } from "./scatter/index.js";
import { select } from "./select/index.js";
import { type CpuOperations, type KernelSet, kernelSet } from "./set.js";
import { softmax } from "./softmax/index.js";
import { softmaxGradient } from "./softmax-gradient/index.js";
import { sort } from "./sort/index.js";
import { unary } from "./unary/index.js";

export { type GemmVariant, gemmVariants } from "./gemm/index.js";

/** Every operation that this backend has. A new one is a folder here and a line in this table. */
const table: CpuOperations = {
  gemm,
  batchedGemm: gemm,
  conv2d,
  conv2dInputGradient,
  conv2dFilterGradient,
  attention,
  reduce,
  unary,
  binary,
  softmax,
  softmaxGradient,
  random,
  normalize,
  normalizeGradient,
  copy,
  gather,
  argReduce,
  pool2d,
  resize2d,
  pool2dGradient,
  resize2dGradient,
  map,
  select,
  quantizedGemm,
  quantize,
  scan,
  sort,
  rope,
  scatter,
  attentionGradient,
};

export const allKernels: KernelSet = kernelSet(definitions, table);
