import { gather as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { gather as entry } from "./index.js";

export const gather: WebGpuKernel = webGpuKernel([definition], entry);
