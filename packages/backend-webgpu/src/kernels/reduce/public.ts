import { reduce as definition } from "@backplane/core/operations";
import { binary } from "../binary/public.js";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { reduce as entry } from "./index.js";

export const reduce: WebGpuKernel = webGpuKernel([definition], entry, [binary]);
