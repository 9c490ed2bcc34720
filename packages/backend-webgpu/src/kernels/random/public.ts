import { random as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { random as entry } from "./index.js";

export const random: WebGpuKernel = webGpuKernel([definition], entry);
