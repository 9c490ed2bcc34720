// Tags: long
import { laws } from "@backplane/conformance";
import { describeWebGpu, isOnLargeKernels, isOnManyCalls } from "./laws-support.js";

// The others: webgpu-kernels.test.ts.
describeWebGpu(
  laws.filter((law) => !isOnLargeKernels(law) && !isOnManyCalls(law)),
  20,
);
