import { quantize as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { quantize as entry } from "./index.js";

export const quantize: WebGpuKernel = webGpuKernel([definition], entry);
