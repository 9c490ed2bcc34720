import { reduce as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { reduce as kernel } from "./index.js";

export const reduce: CpuKernel = cpuKernel([definition], kernel);
