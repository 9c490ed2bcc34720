import { attention as definition } from "@backplane/core/operations";
import { binary } from "../binary/public.js";
import { webGpuKernel } from "../chosen.js";
import { copy } from "../copy/public.js";
import { gemm } from "../gemm/public.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { attention as entry } from "./index.js";

export const attention: WebGpuKernel = webGpuKernel([definition], entry, [binary, copy, gemm]);
