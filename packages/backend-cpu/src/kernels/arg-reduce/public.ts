import { argReduce as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { argReduce as kernel } from "./index.js";

export const argReduce: CpuKernel = cpuKernel([definition], kernel);
