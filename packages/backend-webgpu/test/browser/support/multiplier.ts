// A worker that multiplies when it is told to, on a backend of its own.
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { multiply } from "./devices.js";

addEventListener("message", async ({ data }: MessageEvent<{ readonly dispose: boolean }>) => {
  const backend = createWebGpuBackend();
  await backend.init();
  const result = await multiply(backend);
  if (data.dispose) await backend.dispose();
  postMessage({ result, memory: backend.memory() });
});
