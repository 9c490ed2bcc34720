// Tags: long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isOnManyCalls, meetsMostWithFewest, soonCompiled } from "../laws-support.js";

// What differs in a worker is around the kernels: they are compiled and run by the same process of the browser as
// in the page.
describeBackend(
  {
    name: "WebGPU in a worker",
    create: () => createWebGpuBackend(soonCompiled),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: {
      laws: laws.filter((law) =>
        law.topic === "gemm" ? meetsMostWithFewest(law) : law.operation === undefined && !isOnManyCalls(law),
      ),
      mode: "quick",
      seed: 3,
    },
  },
  globalThis,
);
