import { attention as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { attention as kernel } from "./index.js";

export const attention: CpuKernel = cpuKernel([definition], kernel);
