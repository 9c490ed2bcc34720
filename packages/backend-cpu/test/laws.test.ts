// Tags: long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isAroundAll, isAroundKernels, isEverywhere } from "./laws-support.js";
import { withWorkers } from "./losing-workers.js";

// All laws, with more cases: laws-cases.test.ts.
describeBackend(
  {
    name: "the CPU without threads",
    create: () => createCpuBackend({ threads: 0 }),
    options: { laws: laws.filter(isAroundAll), mode: "quick" },
  },
  globalThis,
);
describeBackend(
  {
    name: "the CPU with 2 threads",
    ...withWorkers(() => createCpuBackend({ threads: 2 })),
    options: {
      laws: laws.filter((law) => isAroundKernels(law) || isEverywhere(law)),
      mode: "quick",
      seed: 2,
    },
  },
  globalThis,
);
