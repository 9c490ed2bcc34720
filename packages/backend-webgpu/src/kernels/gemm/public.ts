import { batchedGemm, gemm as definition } from "@backplane/core/operations";
import { webGpuKernel } from "../chosen.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { gemm as entry } from "./index.js";

export const gemm: WebGpuKernel = webGpuKernel([definition, batchedGemm], entry);
