import { assert } from "chai";

describe("suite in a worker", () => {
  it("holds", () => undefined);
  it("breaks", () => assert.equal(1, 2));
});
