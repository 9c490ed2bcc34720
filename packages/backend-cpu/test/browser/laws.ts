// Tags: long
import { createCpuBackend } from "@backplane/backend-cpu";
import { describeBackend, laws } from "@backplane/conformance";
import { assert } from "chai";
import { isEachTime } from "../laws-support.js";

describe("the page", () => {
  it("has the shared memory that threads need", () => {
    assert.isTrue(crossOriginIsolated);
  });
});

// The engine is that of Node.js, where the same code gets all laws, more cases, and others. Further laws with threads:
// laws-engine.ts. Without threads: laws.not-isolated.ts.
describeBackend(
  {
    name: "the CPU in a page, with 2 threads",
    create: () => createCpuBackend({ threads: 2 }),
    options: {
      laws: laws.filter(isEachTime),
      mode: "quick",
      seed: 3,
    },
  },
  globalThis,
);

describe("Threads of a backend in a page", () => {
  const { Worker } = globalThis;
  let [started, ended] = [0, 0];
  before(() => {
    globalThis.Worker = class extends Worker {
      constructor(...parameters: ConstructorParameters<typeof Worker>) {
        super(...parameters);
        started++;
      }

      override terminate(): void {
        super.terminate();
        ended++;
      }
    };
  });
  after(() => {
    globalThis.Worker = Worker;
  });

  it("start when they are needed, and end with it", async () => {
    const backend = createCpuBackend({ threads: 2 });
    assert.equal(started, 0);
    await backend.init();
    assert.equal(started, 1);
    const n = 700;
    const [a, c] = [backend.alloc(4 * n * n), backend.alloc(4 * n * n)];
    // Until some of it has gone on for so long that the second is started.
    while (started < 2) {
      for (let i = 0; i < 3; i++) backend.gemm({ m: n, n, k: n, a, b: a, c });
      await backend.synchronize();
    }
    assert.isFalse(backend.capabilities.synchronousReads, "a page may not wait");
    assert.equal(started, 2);
    assert.equal(ended, 0);
    await backend.dispose();
    assert.equal(ended, 2);
  });
});
