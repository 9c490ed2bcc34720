// Tags: long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend } from "@backplane/conformance";
import { withWorkers } from "./losing-workers.js";

// With more cases: laws-cases.test.ts.
describeBackend(
  {
    name: "the CPU without threads",
    create: () => createCpuBackend({ threads: 0 }),
    options: { mode: "quick" },
  },
  globalThis,
);
describeBackend(
  {
    name: "the CPU with 2 threads",
    ...withWorkers(() => createCpuBackend({ threads: 2 })),
    options: { mode: "quick", seed: 2 },
  },
  globalThis,
);
