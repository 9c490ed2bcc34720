import { normalizeGradient as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { normalizeGradient as entry } from "./index.js";

export const normalizeGradient: WebGpuKernel = webGpuKernel([definition], entry);
