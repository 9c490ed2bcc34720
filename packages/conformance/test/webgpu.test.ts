// Tags: long
import { laws } from "#src/index.js";
import { describeWebGpu, isOnLargeKernels, isOnManyCalls } from "./support/webgpu.js";

// The others: webgpu-kernels.test.ts.
describeWebGpu(
  laws.filter((law) => !isOnLargeKernels(law) && !isOnManyCalls(law)),
  20,
);
