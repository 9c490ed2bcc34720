import { assert } from "chai";
import { runBrowserTests } from "#src/browser-suite.js";
import { chooseMachine } from "#src/machine.js";

describe("browser suite", () => {
  async function outcomeOf(name: string, grep?: string) {
    const { launch } = await chooseMachine(undefined);
    return runBrowserTests([`/tools/test-runner/dist-test/programs/${name}`], { grep, launch, quiet: true });
  }

  it("counts what passed and names what failed", async () => {
    assert.deepEqual(await outcomeOf("mixed-entry.js"), {
      passed: 1,
      failed: 1,
      failures: ["suite > breaks"],
    });
  });

  it("passes a filter on", async () => {
    assert.deepInclude(await outcomeOf("mixed-entry.js", "holds"), { passed: 1, failed: 0 });
  });

  it("counts an entry without tests as a failure", async () => {
    const outcome = await outcomeOf("empty-entry.js");
    assert.deepEqual(outcome.failures, ["/tools/test-runner/dist-test/programs/empty-entry.js: no test ran"]);
  });

  it("counts an entry that cannot be loaded as a failure", async () => {
    const outcome = await outcomeOf("unloadable-entry.js");
    assert.equal(outcome.failed, 1);
    assert.match(outcome.failures[0]!, /Failed to fetch dynamically imported module/);
  });

  it("counts an entry that does not exist as a failure", async () => {
    assert.equal((await outcomeOf("nowhere.js")).failed, 1);
  });
});
