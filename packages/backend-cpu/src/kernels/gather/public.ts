import { gather as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { gather as kernel } from "./index.js";

export const gather: CpuKernel = cpuKernel([definition], kernel);
