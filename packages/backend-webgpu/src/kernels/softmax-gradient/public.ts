import { softmaxGradient as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { softmaxGradient as entry } from "./index.js";

export const softmaxGradient: WebGpuKernel = webGpuKernel([definition], entry);
