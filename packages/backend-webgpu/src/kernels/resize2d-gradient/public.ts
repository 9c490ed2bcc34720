import { resize2dGradient as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { resize2dGradient as entry } from "./index.js";

export const resize2dGradient: WebGpuKernel = webGpuKernel([definition], entry);
