// Tags: long
import { laws } from "@backplane/conformance";
import { describeWebGpu, isAroundKernels, isEachTime, soonCompiled } from "./laws-support.js";

// Laws on kernels: laws-adapter.test.ts has those for every adapter, laws-kernels all.
describeWebGpu(laws.filter(isAroundKernels), { runs: 10 });
describeWebGpu(
  laws.filter((law) => isEachTime(law) && !isAroundKernels(law)),
  { mode: "quick", runs: 1 },
  soonCompiled,
);
