import { quantizedGemm as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { quantizedGemm as entry } from "./index.js";

export const quantizedGemm: WebGpuKernel = webGpuKernel([definition], entry);
