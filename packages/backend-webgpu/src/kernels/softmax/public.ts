import { softmax as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { softmax as entry } from "./index.js";

export const softmax: WebGpuKernel = webGpuKernel([definition], entry);
