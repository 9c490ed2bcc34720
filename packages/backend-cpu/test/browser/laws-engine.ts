// Tags: pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isOnEveryEngine } from "../laws-support.js";

describeBackend(
  {
    name: "the CPU in a page, with 2 threads, with all operations,",
    create: () => createCpuBackend({ threads: 2 }),
    options: { laws: laws.filter(isOnEveryEngine), mode: "quick", seed: 3 },
  },
  globalThis,
);
