// Tags: long
import { laws } from "@backplane/conformance";
import { describeWebGpu, isOnLargeKernels, isOnManyCalls, meetsMostWithFewest } from "./laws-support.js";

// The others: laws-kernels.test.ts.
describeWebGpu(
  laws.filter(
    (law) =>
      !isOnManyCalls(law) &&
      (!isOnLargeKernels(law) || (law.topic === "softmax" && meetsMostWithFewest(law))),
  ),
  10,
);
