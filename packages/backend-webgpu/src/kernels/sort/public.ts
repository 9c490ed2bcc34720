import { sort as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { sort as entry } from "./index.js";

export const sort: WebGpuKernel = webGpuKernel([definition], entry);
