import { quantize as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { quantize as kernel } from "./index.js";

export const quantize: CpuKernel = cpuKernel([definition], kernel);
