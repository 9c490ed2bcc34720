import { quantizedGemm as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import { gemm } from "../gemm/public.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { quantizedGemm as entry } from "./index.js";

export const quantizedGemm: WebGpuKernel = webGpuKernel([definition], entry, [gemm]);
