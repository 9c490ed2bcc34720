// Tags: kernels, pure, long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import {
  compilesMuch,
  isAroundKernels,
  isOnManyCalls,
  isOnSmallKernels,
  meetsMostWithFewest,
  soonCompiled,
} from "../laws-support.js";

// Shaders take long to compile on a software adapter, so there are few cases, others than in Node.js, and few laws
// on the operations with large kernels, and none that calls all operations in all forms: Node.js has all of them, on the
// same kernels.
const chosen = laws.filter(
  (law) =>
    !isAroundKernels(law) && !isOnManyCalls(law) && (isOnSmallKernels(law) || meetsMostWithFewest(law)),
);
describeBackend(
  {
    name: "WebGPU in a page",
    create: () => createWebGpuBackend(soonCompiled),
    options: { laws: chosen.filter((law) => !compilesMuch(law)), mode: "quick", seed: 3 },
  },
  globalThis,
);
describeBackend(
  {
    name: "WebGPU in a page, by kernels that take long to compile,",
    create: () => createWebGpuBackend(soonCompiled),
    options: { laws: chosen.filter(compilesMuch), mode: "quick", runs: 1, seed: 3 },
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
