import { select as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { select as kernel } from "./index.js";

export const select: CpuKernel = cpuKernel([definition], kernel);
