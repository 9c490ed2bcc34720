import { argReduce as argReduceOperation } from "@backplane/core/operations/arg-reduce";
import { attention as attentionOperation } from "@backplane/core/operations/attention";
import { attentionGradient as attentionGradientOperation } from "@backplane/core/operations/attention-gradient";
import { binary as binaryOperation } from "@backplane/core/operations/binary";
import { conv2d as conv2dOperation } from "@backplane/core/operations/conv2d";
import { conv2dFilterGradient as conv2dFilterGradientOperation } from "@backplane/core/operations/conv2d-filter-gradient";
import { conv2dInputGradient as conv2dInputGradientOperation } from "@backplane/core/operations/conv2d-input-gradient";
import { copy as copyOperation } from "@backplane/core/operations/copy";
import { gather as gatherOperation } from "@backplane/core/operations/gather";
import { batchedGemm, gemm as gemmOperation } from "@backplane/core/operations/gemm";
import { map as mapOperation } from "@backplane/core/operations/map";
import { normalize as normalizeOperation } from "@backplane/core/operations/normalize";
import { normalizeGradient as normalizeGradientOperation } from "@backplane/core/operations/normalize-gradient";
import { pool2d as pool2dOperation } from "@backplane/core/operations/pool2d";
import { pool2dGradient as pool2dGradientOperation } from "@backplane/core/operations/pool2d-gradient";
import { quantize as quantizeOperation } from "@backplane/core/operations/quantize";
import { quantizedGemm as quantizedGemmOperation } from "@backplane/core/operations/quantized-gemm";
import { random as randomOperation } from "@backplane/core/operations/random";
import { reduce as reduceOperation } from "@backplane/core/operations/reduce";
import { resize2d as resize2dOperation } from "@backplane/core/operations/resize2d";
import { resize2dGradient as resize2dGradientOperation } from "@backplane/core/operations/resize2d-gradient";
import { rope as ropeOperation } from "@backplane/core/operations/rope";
import { scan as scanOperation } from "@backplane/core/operations/scan";
import { scatter as scatterOperation } from "@backplane/core/operations/scatter";
import { select as selectOperation } from "@backplane/core/operations/select";
import { softmax as softmaxOperation } from "@backplane/core/operations/softmax";
import { softmaxGradient as softmaxGradientOperation } from "@backplane/core/operations/softmax-gradient";
import { sort as sortOperation } from "@backplane/core/operations/sort";
import { unary as unaryOperation } from "@backplane/core/operations/unary";
import { argReduce as argReduceKernel } from "./arg-reduce/index.js";
import { attention as attentionKernel } from "./attention/index.js";
import { attentionGradient as attentionGradientKernel } from "./attention-gradient/index.js";
import { binary as binaryKernel } from "./binary/index.js";
import { webGpuKernel } from "./chosen.js";
import { conv2d as conv2dKernel } from "./conv2d/index.js";
import { conv2dFilterGradient as conv2dFilterGradientKernel } from "./conv2d-filter-gradient/index.js";
import { conv2dInputGradient as conv2dInputGradientKernel } from "./conv2d-input-gradient/index.js";
import { copy as copyKernel } from "./copy/index.js";
import { gather as gatherKernel } from "./gather/index.js";
import { gemm as gemmKernel } from "./gemm/index.js";
import { map as mapKernel, map as selectKernel } from "./map/index.js";
import { normalize as normalizeKernel } from "./normalize/index.js";
import { normalizeGradient as normalizeGradientKernel } from "./normalize-gradient/index.js";
import { pool2d as pool2dKernel } from "./pool2d/index.js";
import { pool2dGradient as pool2dGradientKernel } from "./pool2d-gradient/index.js";
import { quantize as quantizeKernel } from "./quantize/index.js";
import { quantizedGemm as quantizedGemmKernel } from "./quantized-gemm/index.js";
import { random as randomKernel } from "./random/index.js";
import { reduce as reduceKernel } from "./reduce/index.js";
import { resize2d as resize2dKernel } from "./resize2d/index.js";
import { resize2dGradient as resize2dGradientKernel } from "./resize2d-gradient/index.js";
import { rope as ropeKernel } from "./rope/index.js";
import { scan as scanKernel } from "./scan/index.js";
import { scatter as scatterKernel } from "./scatter/index.js";
import { softmax as softmaxKernel } from "./softmax/index.js";
import { softmaxGradient as softmaxGradientKernel } from "./softmax-gradient/index.js";
import { sort as sortKernel } from "./sort/index.js";
import { unary as unaryKernel } from "./unary/index.js";
import type { WebGpuKernel } from "./webgpu-kernel.js";

/*
 * `@backplane/backend-webgpu/kernels`: every operation of this package, for programs that choose some. A new one is a folder and a line
 * here. Bundlers leave out what nobody imports.
 */
export const gemm: WebGpuKernel = /* @__PURE__ */ webGpuKernel([gemmOperation, batchedGemm], gemmKernel);
export const binary: WebGpuKernel = /* @__PURE__ */ webGpuKernel([binaryOperation], binaryKernel);
export const copy: WebGpuKernel = /* @__PURE__ */ webGpuKernel([copyOperation], copyKernel);
export const unary: WebGpuKernel = /* @__PURE__ */ webGpuKernel([unaryOperation], unaryKernel);
export const conv2d: WebGpuKernel = /* @__PURE__ */ webGpuKernel([conv2dOperation], conv2dKernel, [
  binary,
  copy,
  gemm,
  unary,
]);
export const conv2dInputGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [conv2dInputGradientOperation],
  conv2dInputGradientKernel,
  [binary, conv2d, copy, gemm],
);
export const conv2dFilterGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [conv2dFilterGradientOperation],
  conv2dFilterGradientKernel,
  [binary, conv2d, copy, gemm],
);
export const attention: WebGpuKernel = /* @__PURE__ */ webGpuKernel([attentionOperation], attentionKernel, [
  binary,
  copy,
  gemm,
]);
export const reduce: WebGpuKernel = /* @__PURE__ */ webGpuKernel([reduceOperation], reduceKernel, [
  binary,
  unary,
]);
export const softmax: WebGpuKernel = /* @__PURE__ */ webGpuKernel([softmaxOperation], softmaxKernel);
export const softmaxGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [softmaxGradientOperation],
  softmaxGradientKernel,
);
export const random: WebGpuKernel = /* @__PURE__ */ webGpuKernel([randomOperation], randomKernel);
export const normalize: WebGpuKernel = /* @__PURE__ */ webGpuKernel([normalizeOperation], normalizeKernel);
export const normalizeGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [normalizeGradientOperation],
  normalizeGradientKernel,
);
export const gather: WebGpuKernel = /* @__PURE__ */ webGpuKernel([gatherOperation], gatherKernel);
export const scatter: WebGpuKernel = /* @__PURE__ */ webGpuKernel([scatterOperation], scatterKernel);
export const rope: WebGpuKernel = /* @__PURE__ */ webGpuKernel([ropeOperation], ropeKernel);
export const argReduce: WebGpuKernel = /* @__PURE__ */ webGpuKernel([argReduceOperation], argReduceKernel);
export const pool2d: WebGpuKernel = /* @__PURE__ */ webGpuKernel([pool2dOperation], pool2dKernel);
export const resize2d: WebGpuKernel = /* @__PURE__ */ webGpuKernel([resize2dOperation], resize2dKernel);
export const pool2dGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [pool2dGradientOperation],
  pool2dGradientKernel,
);
export const resize2dGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [resize2dGradientOperation],
  resize2dGradientKernel,
);
export const map: WebGpuKernel = /* @__PURE__ */ webGpuKernel([mapOperation], mapKernel);
/** Its problems are maps. */
export const select: WebGpuKernel = /* @__PURE__ */ webGpuKernel([selectOperation], selectKernel);
export const quantizedGemm: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [quantizedGemmOperation],
  quantizedGemmKernel,
  [gemm],
);
export const quantize: WebGpuKernel = /* @__PURE__ */ webGpuKernel([quantizeOperation], quantizeKernel);
export const scan: WebGpuKernel = /* @__PURE__ */ webGpuKernel([scanOperation], scanKernel);
export const sort: WebGpuKernel = /* @__PURE__ */ webGpuKernel([sortOperation], sortKernel);
export const attentionGradient: WebGpuKernel = /* @__PURE__ */ webGpuKernel(
  [attentionGradientOperation],
  attentionGradientKernel,
  [copy, gemm],
);
