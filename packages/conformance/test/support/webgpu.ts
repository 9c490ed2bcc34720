import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, type Law } from "#src/index.js";

const ofLargeKernels: readonly (string | undefined)[] = [
  "gemm",
  "batchedGemm",
  "conv2d",
  "attention",
  "reduce",
];
const onManyKernels: readonly string[] = ["resources", "reach", "stateful"];

/** Whether a law asks for kernels that software adapters take long to compile: of these operations, or of many. */
export function needsLargeKernels({ operation, topic }: Law): boolean {
  return ofLargeKernels.includes(operation) || onManyKernels.includes(topic);
}

/** No backend is skipped where it is missing: a machine on which the suite says nothing about it has not tested it. */
export function describeWebGpu(laws: readonly Law[], runs: number): void {
  describeBackend(
    {
      name: "WebGPU",
      create: () => createWebGpuBackend(),
      loseDevice: (backend) => (backend as WebGpuBackend).loseDevice(),
      options: { laws, runs },
    },
    globalThis,
  );
}
