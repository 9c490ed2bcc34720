// Tags: long
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend } from "@backplane/conformance";

// As in the page, on cases of its own. What differs in a worker is around the kernels, so these are the
// ones that compile soonest.
describeBackend(
  {
    name: "WebGPU in a worker",
    create: () => createWebGpuBackend({ variants: { conv2d: "direct_4x128", attention: "tiled_16x32" } }),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: { mode: "quick", seed: 3 },
  },
  globalThis,
);
