import * as entry from "@backplane/backend-cpu";
import { assert } from "chai";

describe("@backplane/backend-cpu", () => {
  it("is reached through its exports map", () => {
    assert.typeOf(entry, "Module");
  });
});
