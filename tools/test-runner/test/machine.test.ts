import { SoftwareAdapterUnavailable, unavailableReason } from "@backplane/software-adapter";
import { assert } from "chai";
import { chooseMachine } from "#src/machine.js";

describe("machine", () => {
  it("is the machine's own adapter when that is asked for", async () => {
    assert.deepInclude(await chooseMachine("system"), {
      description: "the adapter of this machine",
      env: {},
    });
  });

  it("is SwiftShader, where that runs, when nothing else is asked for", async function () {
    if (unavailableReason() !== undefined) this.skip();
    for (const adapter of [undefined, "software"] as const) {
      const { description, env } = await chooseMachine(adapter);
      assert.match(description, /SwiftShader/);
      assert.property(env, "VK_ICD_FILENAMES");
    }
  });

  it("is never another one where lavapipe is missing", async function () {
    if (unavailableReason() !== undefined) this.skip();
    // The loader skips every driver, so this holds whether or not the machine has a lavapipe.
    const variable = "VK_LOADER_DRIVERS_DISABLE";
    const before = process.env[variable];
    process.env[variable] = "*";
    try {
      const error = await chooseMachine("lavapipe").then(
        ({ description }) => assert.fail(`it is ${description}`),
        (thrown: unknown) => thrown,
      );
      assert.instanceOf(error, SoftwareAdapterUnavailable);
      assert.match((error as Error).message, /fetch-lavapipe\.js/);
    } finally {
      if (before === undefined) delete process.env[variable];
      else process.env[variable] = before;
    }
  });
});
