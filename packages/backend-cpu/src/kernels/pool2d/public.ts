import { pool2d as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { pool2d as kernel } from "./index.js";

export const pool2d: CpuKernel = cpuKernel([definition], kernel);
