import { copy as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { copy as entry } from "./index.js";

export const copy: WebGpuKernel = webGpuKernel([definition], entry);
