import * as entry from "@backplane/backend-webgpu";
import { assert } from "chai";

describe("@backplane/backend-webgpu", () => {
  it("is reached through its exports map", () => {
    assert.typeOf(entry, "Module");
  });
});
