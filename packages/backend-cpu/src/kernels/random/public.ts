import { random as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { random as kernel } from "./index.js";

export const random: CpuKernel = cpuKernel([definition], kernel);
