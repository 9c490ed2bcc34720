import { batchedGemm, gemm as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { gemm as kernel } from "./index.js";

export const gemm: CpuKernel = cpuKernel([definition, batchedGemm], kernel);
