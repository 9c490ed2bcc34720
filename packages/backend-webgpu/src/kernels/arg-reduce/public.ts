import { argReduce as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { argReduce as entry } from "./index.js";

export const argReduce: WebGpuKernel = webGpuKernel([definition], entry);
