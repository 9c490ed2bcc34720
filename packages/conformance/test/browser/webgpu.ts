import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { describeBackend } from "@backplane/conformance";

describeBackend({ name: "WebGPU", create: () => createWebGpuBackend() }, globalThis);
