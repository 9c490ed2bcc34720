// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu/bare";
import { gemm, unary } from "@backplane/backend-cpu/kernels";
import { describeBackend, laws } from "@backplane/conformance";
import { isAroundAll } from "./laws-support.js";

// What the kernels compute is the same as in a backend of all: laws-cases.
describeBackend(
  {
    name: "the CPU with two kernels",
    create: () => createCpuBackend({ threads: 0, kernels: [gemm, unary] }),
    options: { laws: laws.filter(isAroundAll), mode: "quick", runs: 1 },
  },
  globalThis,
);
