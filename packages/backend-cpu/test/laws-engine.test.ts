// Tags: pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isAroundAll, isOnEveryEngine } from "./laws-support.js";

// All laws, with more cases: laws-cases.
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
    name: "the CPU with 2 threads, with all operations,",
    create: () => createCpuBackend({ threads: 2 }),
    options: { laws: laws.filter(isOnEveryEngine), mode: "quick", seed: 2 },
  },
  globalThis,
);
