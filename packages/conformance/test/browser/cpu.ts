import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend } from "@backplane/conformance";
import { assert } from "chai";

describe("the page", () => {
  it("has the shared memory that threads need", () => {
    assert.isTrue(crossOriginIsolated);
  });
});

// The engine is that of Node.js, where the same code gets more cases, and others.
for (const [threads, seed] of [
  [0, 2],
  [2, 3],
] as const)
  describeBackend(
    {
      name: `the CPU in a page, with ${threads} threads`,
      create: () => createCpuBackend({ threads }),
      options: { mode: "quick", seed },
    },
    globalThis,
  );
