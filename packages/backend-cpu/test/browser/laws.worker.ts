// Tags: long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { assert } from "chai";
import { isAroundAll, isOnSharedWork } from "../laws-support.js";

describe("the worker", () => {
  it("has the shared memory that threads need", () => {
    assert.isTrue(crossOriginIsolated);
  });
});

// Its threads are workers of a worker, and the kernels are those of the page: of results there are those that are shared.
describeBackend(
  {
    name: "the CPU in a worker, with 2 threads",
    create: () => createCpuBackend({ threads: 2 }),
    options: {
      laws: laws.filter((law) => isAroundAll(law) && (law.topic !== "gemm" || isOnSharedWork(law))),
      mode: "quick",
      seed: 4,
    },
  },
  globalThis,
);

describe("Threads of a backend in a worker", () => {
  it("are those that were asked for", async () => {
    const backend = createCpuBackend({ threads: 2 });
    await backend.init();
    assert.equal(backend.capabilities.device.details.threads, "2");
    assert.isTrue(backend.capabilities.synchronousReads);
    // Long enough for the other worker to be wanted, which cannot come up while this one waits.
    const n = 700;
    const [a, c] = [backend.alloc(4 * n * n), backend.alloc(4 * n * n)];
    backend.fill(a, 1, n * n);
    for (let i = 0; i < 3; i++) backend.gemm({ m: n, n, k: n, a, b: a, c });
    const result = new Float32Array(1);
    backend.copyDtoHSync(result, c);
    assert.equal(result[0], n);
    await backend.synchronize();
    await backend.dispose();
    assert.deepInclude(backend.memory(), { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
  });
});
