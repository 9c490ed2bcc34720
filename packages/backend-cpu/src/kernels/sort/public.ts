import { sort as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { sort as kernel } from "./index.js";

export const sort: CpuKernel = cpuKernel([definition], kernel);
