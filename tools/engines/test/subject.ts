// What the conformance suite is to try in each engine.
import { createCpuBackend } from "@backplane/backend-cpu";

export default [0, 2].map((threads) => ({
  name: `cpu-${threads}`,
  create: () => createCpuBackend({ threads }),
}));
