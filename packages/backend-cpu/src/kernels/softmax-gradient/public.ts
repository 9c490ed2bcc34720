import { softmaxGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { softmaxGradient as kernel } from "./index.js";

export const softmaxGradient: CpuKernel = cpuKernel([definition], kernel);
