// Tags: once, long
import { createWebGpuBackend } from "@backplane/backend-webgpu/bare";
import { binary, gather, gemm, unary } from "@backplane/backend-webgpu/kernels";
import { describeBackend, laws } from "@backplane/conformance";
import { holding } from "#src/runtime/holding.js";
import { isAroundKernels, isOnSmallKernels, meetsMostWithFewest } from "./laws-support.js";

// On GPUs, commands wait for their pipelines in all tests.
describe("with commands that wait for their pipelines", () => {
  before(() => {
    holding.onSoftware = true;
  });
  after(() => {
    holding.onSoftware = false;
  });
  describeBackend(
    {
      name: "WebGPU",
      create: () => createWebGpuBackend({ kernels: [binary, gather, gemm, unary] }),
      options: {
        laws: laws.filter(
          (law) => isAroundKernels(law) || (isOnSmallKernels(law) && meetsMostWithFewest(law)),
        ),
        mode: "quick",
        runs: 1,
      },
    },
    globalThis,
  );
});
