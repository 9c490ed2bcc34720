import { select as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import { map as entry } from "../map/index.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";

/** Its problems are maps. */
export const select: WebGpuKernel = webGpuKernel([definition], entry);
