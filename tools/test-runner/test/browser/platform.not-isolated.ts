import { assert } from "chai";

describe("browser platform without isolation", () => {
  it("has no shared memory", () => {
    assert.isFalse(crossOriginIsolated);
    assert.isUndefined((globalThis as { SharedArrayBuffer?: unknown }).SharedArrayBuffer);
  });
});
