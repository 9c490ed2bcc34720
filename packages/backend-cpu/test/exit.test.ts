// Tags: long
import { expect } from "chai";
import { runProgram } from "./programs.js";

const slowWork = (threads: number) => `
  const backend = createCpuBackend({ threads: ${threads} });
  await backend.init();
  const n = 700;
  const a = backend.alloc(4 * n * n), c = backend.alloc(4 * n * n);
  backend.fill(a, 1, n * n);
  for (let i = 0; i < 5; i++) backend.gemm({ m: n, n, k: n, a, b: a, c });
  const result = new Float32Array(1);`;

/** After `slowWork`: minutes of more, for programs that do not wait for it. */
const endlessWork = "for (let i = 0; i < 10_000; i++) backend.gemm({ m: n, n, k: n, a, b: a, c });";

describe("a program that uses the backend", () => {
  for (const threads of [0, 2]) {
    describe(`with ${threads} threads`, () => {
      it("ends by itself when it has disposed of the backend", async () => {
        const { code, output } = await runProgram(`${slowWork(threads)}
          await backend.copyDtoH(result, c);
          await backend.dispose();
          console.log(result[0]);`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "700\n" });
      });

      it("ends by itself when it has forgotten to", async () => {
        const { code, output } = await runProgram(`${slowWork(threads)}
          await backend.copyDtoH(result, c);
          console.log(result[0]);`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "700\n" });
      });

      it("lives until what it waits for has come", async () => {
        // Nothing but these promises keeps the process alive.
        const { code, output } = await runProgram(`${slowWork(threads)}
          backend.synchronize().then(() => console.log("done"));
          backend.copyDtoH(result, c).then(() => console.log(result[0]));`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "done\n700\n" });
      });

      it("does not wait for work whose result nobody wants", async () => {
        const { code, output } = await runProgram(`${slowWork(threads)}
          ${threads === 0 ? "" : endlessWork}
          console.log("end");`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "end\n" });
      });
    });
  }

  for (const threads of [0, 2])
    it(`keeps no memory of a backend that is disposed of but not forgotten, with ${threads} threads`, async () => {
      const { code, output } = await runProgram(`
        const memories = [];
        WebAssembly.Memory = new Proxy(WebAssembly.Memory, {
          construct(target, parameters) {
            const memory = new target(...parameters);
            memories.push(new WeakRef(memory));
            return memory;
          },
        });
        const backend = createCpuBackend({ threads: ${threads} });
        await backend.init();
        const n = 1000;
        const a = backend.alloc(4 * n * n), c = backend.alloc(4 * n * n);
        backend.gemm({ m: n, n, k: n, a, b: a, c });
        await backend.synchronize();
        const kept = () => memories.filter((memory) => memory.deref()?.buffer.byteLength > 2 ** 22).length;
        const before = kept();
        await backend.dispose();
        // Whoever looks at a WeakRef keeps what it refers to until the next turn of the event loop.
        for (let i = 0; i < 5; i++) {
          await new Promise((resolve) => setTimeout(resolve, 20));
          gc();
        }
        console.log(backend.name, before, kept());`);
      expect({ code, output }).to.deep.equal({ code: 0, output: "cpu 1 0\n" });
    });

  it("ends by itself when the device was lost while it waited for a result", async () => {
    const { code, output } = await runProgram(`
      const module = process.getBuiltinModule("node:worker_threads");
      const workers = [];
      module.Worker = class extends module.Worker {
        constructor(...parameters) {
          super(...parameters);
          workers.push(this);
        }
      };
      ${slowWork(2)}
      // Until work has gone on for so long that the second worker was started.
      while (workers.length < 2) {
        backend.gemm({ m: n, n, k: n, a, b: a, c });
        await backend.synchronize();
      }
      ${endlessWork}
      const read = backend.copyDtoH(result, c).catch((error) => console.log(workers.length, error.code));
      await workers[0].terminate();
      await read;`);
    expect({ code, output }).to.deep.equal({ code: 0, output: "2 DEVICE_LOST\n" });
  });

  it("can dispose of the backend in the middle of work", async () => {
    const { code, output } = await runProgram(`${slowWork(2)}
      ${endlessWork}
      const read = backend.copyDtoH(result, c).catch((error) => console.log(error.code));
      await backend.dispose();
      await read;`);
    expect({ code, output }).to.deep.equal({ code: 0, output: "DISPOSED\n" });
  });
});
