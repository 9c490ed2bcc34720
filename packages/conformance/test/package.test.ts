import * as entry from "@backplane/conformance";
import { assert } from "chai";

describe("@backplane/conformance", () => {
  it("is reached through its exports map", () => {
    assert.typeOf(entry, "Module");
  });
});
