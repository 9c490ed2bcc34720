import { pool2dGradient as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { pool2dGradient as kernel } from "./index.js";

export const pool2dGradient: CpuKernel = cpuKernel([definition], kernel);
