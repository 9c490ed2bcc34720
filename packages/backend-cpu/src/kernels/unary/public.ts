import { unary as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { unary as kernel } from "./index.js";

export const unary: CpuKernel = cpuKernel([definition], kernel);
