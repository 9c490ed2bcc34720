import type { OperationName, OperationProblems } from "@backplane/core";
import { attention } from "./attention/attention.js";
import { binary } from "./binary/binary.js";
import { conv2d } from "./conv2d/conv2d.js";
import { gemmOperation } from "./gemm/gemm.js";
import type { CpuMemory, CpuOperation, Features } from "./kernel.js";
import { reduce } from "./reduce/reduce.js";
import { unary } from "./unary/unary.js";

export type CpuOperations = {
  readonly [Name in OperationName]?: CpuOperation<OperationProblems<CpuMemory>[Name]>;
};

/** Every operation that this backend has. A new one is a folder here and a line in this table. */
export function cpuOperations(gemmVariant: string | undefined, features: Features): CpuOperations {
  const gemm = gemmOperation(gemmVariant, features);
  return { gemm, batchedGemm: gemm, conv2d, attention, reduce, unary, binary };
}
