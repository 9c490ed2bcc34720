import { scatter as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { scatter as kernel } from "./index.js";

export const scatter: CpuKernel = cpuKernel([definition], kernel);
