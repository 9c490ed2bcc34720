import { binary as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { binary as kernel } from "./index.js";

export const binary: CpuKernel = cpuKernel([definition], kernel);
