import { resize2d as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { resize2d as entry } from "./index.js";

export const resize2d: WebGpuKernel = webGpuKernel([definition], entry);
