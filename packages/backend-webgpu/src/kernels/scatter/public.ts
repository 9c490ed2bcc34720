import { scatter as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { scatter as entry } from "./index.js";

export const scatter: WebGpuKernel = webGpuKernel([definition], entry);
