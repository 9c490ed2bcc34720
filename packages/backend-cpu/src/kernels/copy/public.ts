import { copy as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { copy as kernel } from "./index.js";

export const copy: CpuKernel = cpuKernel([definition], kernel);
