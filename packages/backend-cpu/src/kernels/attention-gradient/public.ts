import { attentionGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { attentionGradient as kernel } from "./index.js";

export const attentionGradient: CpuKernel = cpuKernel([definition], kernel);
