// Tags: long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isOnLargeKernels, isOnManyCalls, meetsMostWithFewest, soonCompiled } from "../laws-support.js";

// Shaders take long to compile on a software adapter, so there are few cases, others than in Node.js, and few laws
// on the operations with large kernels: Node.js has all of them, on the same kernels.
describeBackend(
  {
    name: "WebGPU in a page",
    create: () => createWebGpuBackend(soonCompiled),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: {
      laws: laws.filter((law) => !isOnLargeKernels(law) || isOnManyCalls(law) || meetsMostWithFewest(law)),
      mode: "quick",
      seed: 2,
    },
  },
  globalThis,
);

// The kernels that it chooses by itself, as Chromium compiles them.
describeBackend(
  {
    name: "WebGPU in a page, by its own kernels,",
    create: () => createWebGpuBackend(),
    options: {
      laws: laws
        .filter(({ topic }) => topic === "conv2d" || topic === "attention")
        .filter((law) => law.dtype === "f32" && meetsMostWithFewest(law)),
      runs: 1,
      seed: 4,
    },
  },
  globalThis,
);
