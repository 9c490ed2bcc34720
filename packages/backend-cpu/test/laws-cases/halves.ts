import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";

/** Every second law, with many cases, as every backend is tried: all of them in one file would take five minutes. */
export function describeCases(half: 1 | 2): void {
  describeBackend(
    {
      name: "the CPU, with many cases,",
      create: () => createCpuBackend({ threads: 0 }),
      options: { laws: laws.filter((_, i) => i % 2 === half - 1) },
    },
    globalThis,
  );
}
