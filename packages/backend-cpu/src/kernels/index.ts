import { chosenKernels } from "./chosen.js";
import * as kernels from "./list.js";
import type { KernelSet } from "./set.js";

export { type GemmVariant, gemmVariants } from "./gemm/index.js";

export const allKernels: KernelSet = chosenKernels(Object.values(kernels)).set;
