// Tags: kernels, pure, long
import { createCpuBackend } from "@backplane/backend-cpu/bare";
import * as kernels from "@backplane/backend-cpu/kernels";
import { describeBackend, laws } from "@backplane/conformance";

/*
 * Each kernel in a backend that has no other: it must bring whatever it is planned with.
 */
for (const kernel of Object.values(kernels)) {
  const operations = kernel.operations.map((operation) => operation.name);
  describeBackend(
    {
      name: `the CPU with ${operations.join(" and ")} alone`,
      create: () => createCpuBackend({ threads: 0, kernels: [kernel] }),
      options: {
        laws: laws.filter(
          ({ operation, topic }) => operations.includes(operation ?? "") && topic === operation,
        ),
        mode: "quick",
        runs: 1,
      },
    },
    globalThis,
  );
}
