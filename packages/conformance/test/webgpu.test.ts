// Tags: long
import { laws } from "#src/index.js";
import { describeWebGpu, needsLargeKernels } from "./support/webgpu.js";

// The others: webgpu-kernels.test.ts.
describeWebGpu(
  laws.filter((law) => !needsLargeKernels(law)),
  20,
);
