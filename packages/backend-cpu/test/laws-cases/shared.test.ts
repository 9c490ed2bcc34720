// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isAroundAll, isOnEveryEngine, isOnSharedWork } from "../laws-support.js";

// What laws.test.ts and laws-engine.test.ts have not of it.
describeBackend(
  {
    name: "the CPU with 2 threads, with shared work,",
    create: () => createCpuBackend({ threads: 2 }),
    options: {
      laws: laws.filter((law) => isOnSharedWork(law) && !isAroundAll(law) && !isOnEveryEngine(law)),
      mode: "quick",
      seed: 2,
    },
  },
  globalThis,
);
