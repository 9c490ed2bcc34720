// Tags: long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend } from "@backplane/conformance";

// Shaders take long to compile on a software adapter: all laws, on few cases, and on others than in
// Node.js, where the same kernels get more of them.
describeBackend(
  {
    name: "WebGPU in a page",
    create: () => createWebGpuBackend(),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: { mode: "quick", seed: 2 },
  },
  globalThis,
);
