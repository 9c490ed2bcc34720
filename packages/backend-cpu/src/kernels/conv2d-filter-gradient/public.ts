import { conv2dFilterGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { conv2dFilterGradient as kernel } from "./index.js";

export const conv2dFilterGradient: CpuKernel = cpuKernel([definition], kernel);
