import type { GemmProblem } from "@backplane/core";
import type { KernelDefinition } from "../../context.js";
import type { DeviceMemory } from "../../memory.js";
import { gemmKernel } from "./gemm.js";

export { gemmKernel, runGemm } from "./gemm.js";
export { type GemmChoice, selectGemm } from "./select.js";
export { type GemmShape, type GemmVariant, gemmVariants } from "./variants.js";

/** gemm and batchedGemm, which have one form of problem. */
export const gemm: KernelDefinition<GemmProblem<DeviceMemory>> = gemmKernel();
