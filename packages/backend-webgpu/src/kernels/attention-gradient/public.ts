import { attentionGradient as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import { copy } from "../copy/public.js";
import { gemm } from "../gemm/public.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { attentionGradient as entry } from "./index.js";

export const attentionGradient: WebGpuKernel = webGpuKernel([definition], entry, [copy, gemm]);
