// Tags: pure
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { assert } from "chai";
import { isAroundAll } from "../laws-support.js";

describe("the page", () => {
  it("has no shared memory", () => {
    assert.isFalse(crossOriginIsolated);
  });
});

describe("The CPU without shared memory", () => {
  it("has no threads to wait for, and so reads at once", async () => {
    const backend = createCpuBackend();
    await backend.init();
    assert.isTrue(backend.capabilities.synchronousReads);
    await backend.dispose();
  });
});

// Asked for threads that it cannot have here, it must do without. What it computes then, other pages see.
describeBackend(
  {
    name: "the CPU without shared memory",
    create: () => createCpuBackend({ threads: 2 }),
    options: { laws: laws.filter(isAroundAll), mode: "quick", seed: 5 },
  },
  globalThis,
);
