// Tags: kernels, pure, long
import { createWebGpuBackend } from "@backplane/backend-webgpu/bare";
import { gemm, unary } from "@backplane/backend-webgpu/kernels";
import { describeBackend, laws } from "@backplane/conformance";
import { isAroundKernels } from "./laws-support.js";

// What the kernels compute is the same as in a backend of all: laws-kernels.
describeBackend(
  {
    name: "WebGPU with two kernels",
    create: () => createWebGpuBackend({ kernels: [gemm, unary] }),
    options: { laws: laws.filter(isAroundKernels), mode: "quick", runs: 1 },
  },
  globalThis,
);
