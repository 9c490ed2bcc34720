// What entries in workers rely on.
import { assert } from "chai";

describe("browser platform in a worker", () => {
  it("is a dedicated worker of an isolated page", () => {
    assert.equal(Object.prototype.toString.call(globalThis), "[object DedicatedWorkerGlobalScope]");
    assert.isTrue(crossOriginIsolated);
  });

  it("shares memory with a worker of its own, which imports by name", async () => {
    const worker = new Worker(new URL("./support/equals-one.js", import.meta.url), { type: "module" });
    const shared = new Int32Array(new SharedArrayBuffer(4));
    const ask = () =>
      new Promise((answered, failed) => {
        worker.onmessage = ({ data }) => answered(data);
        worker.onerror = failed;
        worker.postMessage(shared);
      });
    assert.equal(await ask(), "expected +0 to equal 1");
    shared[0] = 1;
    assert.equal(await ask(), "it does");
    worker.terminate();
  });

  it("has a WebGPU adapter", async () => {
    assert.isNotNull(await navigator.gpu.requestAdapter());
  });
});
