import { map as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { map as kernel } from "./index.js";

export const map: CpuKernel = cpuKernel([definition], kernel);
