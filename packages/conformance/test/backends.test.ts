import { createCpuBackend } from "@backplane/backend-cpu";
import { createWebGpuBackend, type WebGpuBackend } from "@backplane/backend-webgpu";
import { createReferenceBackend, describeBackend, type Law, laws, loseReferenceDevice } from "#src/index.js";
import { withWorkers } from "./support/workers.js";

// No backend is skipped where it is missing: a machine on which the suite says nothing about one of
// them has not tested it.
describeBackend(
  { name: "the reference", create: createReferenceBackend, loseDevice: loseReferenceDevice },
  globalThis,
);
describeBackend(
  { name: "the CPU without threads", create: () => createCpuBackend({ threads: 0 }) },
  globalThis,
);
describeBackend(
  {
    name: "the CPU with 2 threads",
    ...withWorkers(() => createCpuBackend({ threads: 2 })),
  },
  globalThis,
);

/** Nearly every further case of these needs a kernel of its own, which takes a software adapter seconds to compile. */
const compilesMuch = ({ topic }: Law): boolean => topic === "conv2d" || topic === "attention";

for (const [chosen, runs] of [
  [laws.filter((law) => !compilesMuch(law)), 20],
  [laws.filter(compilesMuch), 8],
] as const)
  describeBackend(
    {
      name: "WebGPU",
      create: () => createWebGpuBackend(),
      loseDevice: (backend) => (backend as WebGpuBackend).loseDevice(),
      options: { laws: chosen, runs },
    },
    globalThis,
  );
