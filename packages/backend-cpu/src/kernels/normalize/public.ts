import { normalize as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { normalize as kernel } from "./index.js";

export const normalize: CpuKernel = cpuKernel([definition], kernel);
