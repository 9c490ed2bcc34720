// Tags: pure, long
import { laws } from "@backplane/conformance";
import { describeWebGpu, isOnEveryAdapter, soonCompiled } from "./laws-support.js";

// Each case may need a kernel of its own, for which the compiler of lavapipe takes seconds. All laws on kernels, with
// more cases: laws-kernels.
describeWebGpu(laws.filter(isOnEveryAdapter), { mode: "quick", runs: 1 }, soonCompiled);
