import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend } from "@backplane/conformance";
import { assert } from "chai";

describe("the page", () => {
  it("has the shared memory that threads need", () => {
    assert.isTrue(crossOriginIsolated);
  });
});

describeBackend(
  { name: "the CPU without threads", create: () => createCpuBackend({ threads: 0 }) },
  globalThis,
);
describeBackend(
  { name: "the CPU with 2 threads", create: () => createCpuBackend({ threads: 2 }) },
  globalThis,
);
