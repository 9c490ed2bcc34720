import { conv2dInputGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { conv2dInputGradient as kernel } from "./index.js";

export const conv2dInputGradient: CpuKernel = cpuKernel([definition], kernel);
