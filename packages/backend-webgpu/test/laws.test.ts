// Tags: long
import { laws } from "@backplane/conformance";
import { describeWebGpu, isEverywhere, isOnManyCalls } from "./laws-support.js";

// The others: laws-kernels.test.ts.
describeWebGpu(
  laws.filter((law) => isEverywhere(law) && !isOnManyCalls(law)),
  10,
);
