import { map as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { map as entry } from "./index.js";

export const map: WebGpuKernel = webGpuKernel([definition], entry);
