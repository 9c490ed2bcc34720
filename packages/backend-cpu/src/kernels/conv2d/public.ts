import { conv2d as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { conv2d as kernel } from "./index.js";

export const conv2d: CpuKernel = cpuKernel([definition], kernel);
