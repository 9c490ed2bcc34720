import { resize2dGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { resize2dGradient as kernel } from "./index.js";

export const resize2dGradient: CpuKernel = cpuKernel([definition], kernel);
