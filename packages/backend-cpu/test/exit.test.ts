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

describe("a program that uses the backend", () => {
  for (const threads of [0, 2]) {
    describe(`with ${threads} threads`, () => {
      it("ends by itself when it has disposed of the backend", async () => {
        const { code, output } = await runProgram(`${slowWork(threads)}
          await backend.copyDtoH(result, c);
          await backend.dispose();
          console.log(result[0]);`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "700\n" });
      }).timeout(15000);

      it("ends by itself when it has forgotten to", async () => {
        const { code, output } = await runProgram(`${slowWork(threads)}
          await backend.copyDtoH(result, c);
          console.log(result[0]);`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "700\n" });
      }).timeout(15000);

      it("lives until what it waits for has come", async () => {
        // Nothing but these promises keeps the process alive.
        const { code, output } = await runProgram(`${slowWork(threads)}
          backend.synchronize().then(() => console.log("done"));
          backend.copyDtoH(result, c).then(() => console.log(result[0]));`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "done\n700\n" });
      }).timeout(15000);

      it("does not wait for work whose result nobody wants", async () => {
        const { code, output } = await runProgram(`${slowWork(threads)}
          console.log("end");`);
        expect({ code, output }).to.deep.equal({ code: 0, output: "end\n" });
      }).timeout(15000);
    });
  }

  it("can dispose of the backend in the middle of work", async () => {
    const { code, output } = await runProgram(`${slowWork(2)}
      const read = backend.copyDtoH(result, c).catch((error) => console.log(error.code));
      await backend.dispose();
      await read;`);
    expect({ code, output }).to.deep.equal({ code: 0, output: "DISPOSED\n" });
  }).timeout(15000);
});
