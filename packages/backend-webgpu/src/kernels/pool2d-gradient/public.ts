import { pool2dGradient as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { pool2dGradient as entry } from "./index.js";

export const pool2dGradient: WebGpuKernel = webGpuKernel([definition], entry);
