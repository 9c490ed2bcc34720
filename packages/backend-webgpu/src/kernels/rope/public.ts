import { rope as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { rope as entry } from "./index.js";

export const rope: WebGpuKernel = webGpuKernel([definition], entry);
