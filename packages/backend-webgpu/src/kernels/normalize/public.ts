import { normalize as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { normalize as entry } from "./index.js";

export const normalize: WebGpuKernel = webGpuKernel([definition], entry);
