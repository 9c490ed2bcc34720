// Tags: kernels, pure, long
import { readdirSync } from "node:fs";
import { type CpuKernel, createCpuBackend } from "@backplane/backend-cpu/bare";
import { describeBackend, laws } from "@backplane/conformance";

/*
 * Each kernel in a backend that has no other: it must bring whatever it is planned with.
 */
const folder = new URL("../dist/kernels/", import.meta.url);
const names = readdirSync(folder, { withFileTypes: true })
  .filter(
    (entry) => entry.isDirectory() && readdirSync(new URL(`${entry.name}/`, folder)).includes("public.js"),
  )
  .map(({ name }) => name);
for (const name of names) {
  const [kernel] = Object.values(
    (await import(new URL(`${name}/public.js`, folder).href)) as Record<string, CpuKernel>,
  );
  const operations = kernel!.operations.map((operation) => operation.name);
  describeBackend(
    {
      name: `the CPU with ${operations.join(" and ")} alone`,
      create: () => createCpuBackend({ threads: 0, kernels: [kernel!] }),
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
