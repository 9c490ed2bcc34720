import { rope as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { rope as kernel } from "./index.js";

export const rope: CpuKernel = cpuKernel([definition], kernel);
