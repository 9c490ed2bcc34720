import { expect } from "chai";
import { WebWorker } from "#src/cpu/web-worker.js";

/** What a worker with this script answers. */
function answer(script: string, message: unknown): Promise<unknown> {
  const address = URL.createObjectURL(new Blob([script], { type: "application/javascript" }));
  const worker = new WebWorker(address);
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message: reason }) => reject(new Error(reason));
    worker.postMessage(message);
  }).finally(() => {
    URL.revokeObjectURL(address);
    return worker.terminate();
  });
}

describe("the stand-in for the Worker of pages", () => {
  it("runs a script from a Blob that finds the scope of a page's worker", async () => {
    const script = "self.onmessage = ({ data }) => { postMessage(data + 1); };";
    expect(await answer(script, 41)).to.equal(42);
  });

  it("shares memory", async () => {
    const memory = new Int32Array(new SharedArrayBuffer(4));
    await answer("self.onmessage = ({ data }) => { data[0] = 7; postMessage(0); };", memory);
    expect(memory[0]).to.equal(7);
  });

  it("tells of errors", async () => {
    let reason = "";
    await answer("throw new Error('no such thing');", 0).catch((error: unknown) => {
      reason = (error as Error).message;
    });
    expect(reason).to.equal("no such thing");
  });
});
