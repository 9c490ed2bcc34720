// Tags: long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isEachTime, meetsMostWithFewest, soonCompiled } from "../laws-support.js";

/** Of those on kernels, what shows that a page computes: all others, in Chromium too, are in laws-kernels.ts. */
const onKernels: readonly string[] = ["gemm", "binary", "reduce"];

// Other cases than in Node.js.
describeBackend(
  {
    name: "WebGPU in a page",
    create: () => createWebGpuBackend(soonCompiled),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: {
      laws: laws.filter(
        (law) => isEachTime(law) || (onKernels.includes(law.topic) && meetsMostWithFewest(law)),
      ),
      mode: "quick",
      seed: 2,
    },
  },
  globalThis,
);
