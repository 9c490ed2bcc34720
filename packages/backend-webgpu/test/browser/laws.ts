// Tags: long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import {
  compilesMuch,
  isAroundKernels,
  isOnSmallKernels,
  meetsMostWithFewest,
  soonCompiled,
} from "../laws-support.js";

// Shaders take long to compile on a software adapter, so there are few cases, others than in Node.js, and few laws
// on kernels: the others, in Chromium too, are in laws-kernels.ts.
describeBackend(
  {
    name: "WebGPU in a page",
    create: () => createWebGpuBackend(soonCompiled),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: {
      laws: laws.filter(
        (law) =>
          isAroundKernels(law) ||
          (meetsMostWithFewest(law) &&
            !compilesMuch(law) &&
            (law.topic === "binary" || !isOnSmallKernels(law))),
      ),
      mode: "quick",
      seed: 2,
    },
  },
  globalThis,
);
