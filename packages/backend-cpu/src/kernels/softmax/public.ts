import { softmax as definition } from "@backplane/core/operations";
import { type CpuKernel, cpuKernel } from "../chosen.js";
import { softmax as kernel } from "./index.js";

export const softmax: CpuKernel = cpuKernel([definition], kernel);
