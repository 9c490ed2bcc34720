// Tags: long
import { laws } from "@backplane/conformance";
import { describeWebGpu, isAroundKernels, isEverywhere, soonCompiled } from "./laws-support.js";

describeWebGpu(laws.filter(isAroundKernels), { runs: 10 });
// Each case may need a kernel of its own, for which the compiler of lavapipe takes seconds. All laws on kernels, with
// more cases: laws-kernels.test.ts.
describeWebGpu(
  laws.filter((law) => isEverywhere(law) && !isAroundKernels(law)),
  { mode: "quick", runs: 1 },
  soonCompiled,
);
