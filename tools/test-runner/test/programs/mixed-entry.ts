import { assert } from "chai";

describe("suite", () => {
  it("holds", () => undefined);
  it("breaks", () => assert.equal(1, 2));
});
