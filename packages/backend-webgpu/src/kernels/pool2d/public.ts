import { pool2d as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { pool2d as entry } from "./index.js";

export const pool2d: WebGpuKernel = webGpuKernel([definition], entry);
