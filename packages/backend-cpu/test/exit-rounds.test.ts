// Tags: soak, long
import { expect } from "chai";
import { runProgram } from "./programs.js";

describe("a program that opens backends one after the other", () => {
  for (const threads of [0, 2])
    it(`leaves nothing behind in 40 rounds with ${threads} threads`, async () => {
      const { code, output } = await runProgram(`
        const module = process.getBuiltinModule("node:worker_threads");
        let started = 0, alive = 0;
        module.Worker = class extends module.Worker {
          constructor(...parameters) {
            super(...parameters);
            started++;
            alive++;
            this.on("exit", () => alive--);
          }
        };
        const rss = [];
        for (let round = 0; round < 40; round++) {
          const backend = createCpuBackend({ threads: ${threads} });
          await backend.init();
          // 4 MB that are used, and work that takes so long that all workers start.
          const n = 700;
          const a = backend.alloc(4 * n * n), c = backend.alloc(4 * n * n);
          backend.fill(a, 1, n * n);
          backend.gemm({ m: n, n, k: n, a, b: a, c });
          await backend.synchronize();
          await backend.dispose();
          if (round % 10 !== 9) continue;
          gc();
          await new Promise((resolve) => setTimeout(resolve, 20));
          gc();
          rss.push(process.memoryUsage.rss() / 2 ** 20);
        }
        console.log(JSON.stringify({ started, alive, grown: Math.min(...rss.slice(2)) - rss[0] }));`);
      expect(code, output).to.equal(0);
      const { started, alive, grown } = JSON.parse(output);
      expect(started).to.be.within(threads === 0 ? 0 : 40, 40 * threads);
      expect(alive).to.equal(0);
      // MiB that at least 20 rounds took. A memory that stays would take 80, a worker about as much.
      expect(grown).to.be.below(24);
    });
});
