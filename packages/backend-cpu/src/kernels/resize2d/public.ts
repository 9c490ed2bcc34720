import { resize2d as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { resize2d as kernel } from "./index.js";

export const resize2d: CpuKernel = cpuKernel([definition], kernel);
