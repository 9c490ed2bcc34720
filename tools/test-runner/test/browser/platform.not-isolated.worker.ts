import { assert } from "chai";

describe("browser platform in a worker without isolation", () => {
  it("has no shared memory", () => {
    assert.isFalse(crossOriginIsolated);
    assert.isUndefined((globalThis as { SharedArrayBuffer?: unknown }).SharedArrayBuffer);
  });
});
