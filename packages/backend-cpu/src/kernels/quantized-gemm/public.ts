import { quantizedGemm as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { quantizedGemm as kernel } from "./index.js";

export const quantizedGemm: CpuKernel = cpuKernel([definition], kernel);
