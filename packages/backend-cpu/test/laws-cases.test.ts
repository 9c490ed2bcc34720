// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { isEverywhere, isOnSharedWork } from "./laws-support.js";

// As every backend is tried. laws.test.ts has few laws, every time.
describeBackend(
  { name: "the CPU, with many cases,", create: () => createCpuBackend({ threads: 0 }) },
  globalThis,
);
// What laws.test.ts has not of it.
describeBackend(
  {
    name: "the CPU with 2 threads, with shared work,",
    create: () => createCpuBackend({ threads: 2 }),
    options: {
      laws: laws.filter((law) => isOnSharedWork(law) && !isEverywhere(law)),
      mode: "quick",
      seed: 2,
    },
  },
  globalThis,
);
