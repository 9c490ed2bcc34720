import * as entry from "@backplane/core";
import { assert } from "chai";

describe("@backplane/core", () => {
  it("is reached through its exports map", () => {
    assert.typeOf(entry, "Module");
  });
});
