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
import { type CpuKernel, cpuKernel } from "./chosen.js";
import { conv2d as conv2dKernel } from "./conv2d/index.js";
import { conv2dFilterGradient as conv2dFilterGradientKernel } from "./conv2d-filter-gradient/index.js";
import { conv2dInputGradient as conv2dInputGradientKernel } from "./conv2d-input-gradient/index.js";
import { copy as copyKernel } from "./copy/index.js";
import { gather as gatherKernel } from "./gather/index.js";
import { gemm as gemmKernel } from "./gemm/index.js";
import { map as mapKernel } from "./map/index.js";
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
import { select as selectKernel } from "./select/index.js";
import { softmax as softmaxKernel } from "./softmax/index.js";
import { softmaxGradient as softmaxGradientKernel } from "./softmax-gradient/index.js";
import { sort as sortKernel } from "./sort/index.js";
import { unary as unaryKernel } from "./unary/index.js";

/*
 * `@backplane/backend-cpu/kernels`: every operation of this package, for programs that choose some. A new one is a folder and a line
 * here. Bundlers leave out what nobody imports.
 */
export const gemm: CpuKernel = /* @__PURE__ */ cpuKernel([gemmOperation, batchedGemm], gemmKernel);
export const conv2d: CpuKernel = /* @__PURE__ */ cpuKernel([conv2dOperation], conv2dKernel);
export const conv2dInputGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [conv2dInputGradientOperation],
  conv2dInputGradientKernel,
);
export const conv2dFilterGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [conv2dFilterGradientOperation],
  conv2dFilterGradientKernel,
);
export const attention: CpuKernel = /* @__PURE__ */ cpuKernel([attentionOperation], attentionKernel);
export const reduce: CpuKernel = /* @__PURE__ */ cpuKernel([reduceOperation], reduceKernel);
export const unary: CpuKernel = /* @__PURE__ */ cpuKernel([unaryOperation], unaryKernel);
export const binary: CpuKernel = /* @__PURE__ */ cpuKernel([binaryOperation], binaryKernel);
export const softmax: CpuKernel = /* @__PURE__ */ cpuKernel([softmaxOperation], softmaxKernel);
export const softmaxGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [softmaxGradientOperation],
  softmaxGradientKernel,
);
export const random: CpuKernel = /* @__PURE__ */ cpuKernel([randomOperation], randomKernel);
export const normalize: CpuKernel = /* @__PURE__ */ cpuKernel([normalizeOperation], normalizeKernel);
export const normalizeGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [normalizeGradientOperation],
  normalizeGradientKernel,
);
export const copy: CpuKernel = /* @__PURE__ */ cpuKernel([copyOperation], copyKernel);
export const gather: CpuKernel = /* @__PURE__ */ cpuKernel([gatherOperation], gatherKernel);
export const scatter: CpuKernel = /* @__PURE__ */ cpuKernel([scatterOperation], scatterKernel);
export const rope: CpuKernel = /* @__PURE__ */ cpuKernel([ropeOperation], ropeKernel);
export const argReduce: CpuKernel = /* @__PURE__ */ cpuKernel([argReduceOperation], argReduceKernel);
export const pool2d: CpuKernel = /* @__PURE__ */ cpuKernel([pool2dOperation], pool2dKernel);
export const resize2d: CpuKernel = /* @__PURE__ */ cpuKernel([resize2dOperation], resize2dKernel);
export const pool2dGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [pool2dGradientOperation],
  pool2dGradientKernel,
);
export const resize2dGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [resize2dGradientOperation],
  resize2dGradientKernel,
);
export const map: CpuKernel = /* @__PURE__ */ cpuKernel([mapOperation], mapKernel);
export const select: CpuKernel = /* @__PURE__ */ cpuKernel([selectOperation], selectKernel);
export const quantizedGemm: CpuKernel = /* @__PURE__ */ cpuKernel(
  [quantizedGemmOperation],
  quantizedGemmKernel,
);
export const quantize: CpuKernel = /* @__PURE__ */ cpuKernel([quantizeOperation], quantizeKernel);
export const scan: CpuKernel = /* @__PURE__ */ cpuKernel([scanOperation], scanKernel);
export const sort: CpuKernel = /* @__PURE__ */ cpuKernel([sortOperation], sortKernel);
export const attentionGradient: CpuKernel = /* @__PURE__ */ cpuKernel(
  [attentionGradientOperation],
  attentionGradientKernel,
);
