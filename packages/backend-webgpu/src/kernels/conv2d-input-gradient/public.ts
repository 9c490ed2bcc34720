import { conv2dInputGradient as definition } from "@backplane/core/operations";
import { binary } from "../binary/public.js";
import { webGpuKernel } from "../chosen.js";
import { conv2d } from "../conv2d/public.js";
import { copy } from "../copy/public.js";
import { gemm } from "../gemm/public.js";
import type { WebGpuKernel } from "../webgpu-kernel.js";
import { conv2dInputGradient as entry } from "./index.js";

export const conv2dInputGradient: WebGpuKernel = webGpuKernel([definition], entry, [
  binary,
  conv2d,
  copy,
  gemm,
]);
