import { scan as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { scan as entry } from "./index.js";

export const scan: WebGpuKernel = webGpuKernel([definition], entry);
