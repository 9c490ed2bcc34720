import { unary as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { unary as entry } from "./index.js";

export const unary: WebGpuKernel = webGpuKernel([definition], entry);
