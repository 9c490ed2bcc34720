import { normalizeGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { normalizeGradient as kernel } from "./index.js";

export const normalizeGradient: CpuKernel = cpuKernel([definition], kernel);
