import { conv2d as definition } from "@backplane/core/operations";
import { binary } from "../binary/public.js";
import { webGpuKernel } from "../chosen.js";
import { copy } from "../copy/public.js";
import { gemm } from "../gemm/public.js";
import { unary } from "../unary/public.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { conv2d as entry } from "./index.js";

export const conv2d: WebGpuKernel = webGpuKernel([definition], entry, [binary, copy, gemm, unary]);
