// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend } from "@backplane/conformance";

// As every backend is tried. laws.test.ts has fewer cases, every time.
describeBackend(
  { name: "the CPU, with many cases,", create: () => createCpuBackend({ threads: 0 }) },
  globalThis,
);
