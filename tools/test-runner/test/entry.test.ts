import { assert } from "chai";
import { entryForm } from "#src/entry.js";

describe("name of a browser entry", () => {
  it("says how the entry runs", () => {
    assert.deepEqual(entryForm("/a.worker/b/gemm.js"), { isIsolated: true, inWorker: false });
    assert.deepEqual(entryForm("/a/b/worker.js"), { isIsolated: true, inWorker: false });
    assert.deepEqual(entryForm("/a/b/gemm.worker.js"), { isIsolated: true, inWorker: true });
    assert.deepEqual(entryForm("/a/b/gemm.not-isolated.js"), { isIsolated: false, inWorker: false });
    assert.deepEqual(entryForm("/a/b/gemm.not-isolated.worker.js"), { isIsolated: false, inWorker: true });
  });
});
