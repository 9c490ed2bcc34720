// Tags: long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isEachTime } from "./laws-support.js";
import { withWorkers } from "./losing-workers.js";

// Further laws with threads: laws-engine.test.ts. All laws, with more cases: laws-cases.
describeBackend(
  {
    name: "the CPU with 2 threads",
    ...withWorkers(() => createCpuBackend({ threads: 2 })),
    options: { laws: laws.filter(isEachTime), mode: "quick", seed: 2 },
  },
  globalThis,
);
