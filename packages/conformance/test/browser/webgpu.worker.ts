import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend } from "@backplane/conformance";

// As in the page, on cases of its own.
describeBackend(
  {
    name: "WebGPU in a worker",
    create: () => createWebGpuBackend(),
    loseDevice: (backend) => (backend.native() as GPUDevice).destroy(),
    options: { mode: "quick", seed: 3 },
  },
  globalThis,
);
