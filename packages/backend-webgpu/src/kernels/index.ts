import type { OperationName, OperationProblems } from "@backplane/core";
import type { KernelDefinition } from "../context.js";
import type { DeviceMemory } from "../memory.js";
import { attention } from "./attention/index.js";
import { binary } from "./binary/index.js";
import { conv2d } from "./conv2d/index.js";
import { gemm } from "./gemm/index.js";
import { reduce } from "./reduce/index.js";
import { unary } from "./unary/index.js";

/** Every operation that the backend has; a new one is a line here. */
export const kernels: {
  readonly [Name in OperationName]?: KernelDefinition<OperationProblems<DeviceMemory>[Name]>;
} = { gemm, batchedGemm: gemm, conv2d, attention, reduce, unary, binary };
