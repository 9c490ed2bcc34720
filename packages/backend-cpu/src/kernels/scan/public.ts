import { scan as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { scan as kernel } from "./index.js";

export const scan: CpuKernel = cpuKernel([definition], kernel);
