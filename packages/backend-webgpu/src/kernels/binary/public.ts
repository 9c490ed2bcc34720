import { binary as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { binary as entry } from "./index.js";

export const binary: WebGpuKernel = webGpuKernel([definition], entry);
