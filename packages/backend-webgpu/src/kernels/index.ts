import type { OperationName, OperationProblems } from "@backplane/core";
import type { KernelDefinition } from "../context.js";
import type { DeviceMemory } from "../memory.js";
import { attentionKernel } from "./attention/index.js";
import { binary } from "./binary/index.js";
import { convKernel } from "./conv2d/index.js";
import type { ForcedVariants } from "./forced.js";
import { gemmKernel } from "./gemm/index.js";
import { reduce } from "./reduce/index.js";
import { unary } from "./unary/index.js";

export type Kernels = {
  readonly [Name in OperationName]?: KernelDefinition<OperationProblems<DeviceMemory>[Name]>;
};

/** Every operation that the backend has; a new one is a line here. */
export function kernelsWith(forced: ForcedVariants): Kernels {
  const gemm = gemmKernel(forced.gemm);
  return {
    gemm,
    batchedGemm: gemm,
    conv2d: convKernel(forced.conv2d),
    attention: attentionKernel(forced.attention),
    reduce,
    unary,
    binary,
  };
}
