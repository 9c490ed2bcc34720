// Tags: engines

import type { PageServer } from "@backplane/page";
import { assert } from "chai";
import { type BrowserSuiteOptions, runBrowserTests } from "#src/browser-suite.js";
import { chooseMachine } from "#src/machine.js";
import { startPageServer } from "#src/page-server.js";

const programs = "/tools/test-runner/dist-test/programs";

describe("browser suite", () => {
  let server: PageServer;
  before(async () => {
    server = await startPageServer();
  });
  after(() => server.close());

  async function outcomeOf(name: string, options: Partial<BrowserSuiteOptions> = {}) {
    const { launch } = await chooseMachine(undefined);
    const { origin } = server;
    const defaults = { origin, grep: undefined, launch };
    return runBrowserTests(`${programs}/${name}`, { ...defaults, ...options });
  }

  /** The one failure of an entry that broke down. */
  async function breakdownOf(name: string, options?: Partial<BrowserSuiteOptions>) {
    const { passed, failed, failures } = await outcomeOf(name, options);
    assert.deepEqual({ passed, failed }, { passed: 0, failed: 1 });
    assert.isTrue(failures[0]!.startsWith(`${programs}/${name}: `), failures[0]);
    return failures[0]!.slice(`${programs}/${name}: `.length);
  }

  it("counts what passed and names what failed", async () => {
    assert.deepInclude(await outcomeOf("mixed-entry.js"), {
      passed: 1,
      failed: 1,
      failures: ["suite > breaks: expected 1 to equal 2"],
    });
    assert.deepInclude(await outcomeOf("mixed-entry.worker.js"), {
      passed: 1,
      failed: 1,
      failures: ["suite in a worker > breaks: expected 1 to equal 2"],
    });
  });

  it("shows where a test failed", async () => {
    for (const [name, suite] of [
      ["mixed-entry", "suite"],
      ["mixed-entry.worker", "suite in a worker"],
    ] as const) {
      let written = "";
      await outcomeOf(`${name}.js`, {
        write: (text) => {
          written += text;
        },
      });
      const lines = written.split("\n").map((line) => line.replace(/ +\d+ ms/, "N ms"));
      assert.match(lines[1]!, new RegExp(`${name}\\.js in Chromium \\d`));
      assert.deepEqual(lines.slice(2, 8), [
        `  ${suite}`,
        "N ms  holds",
        "N ms  FAILED: breaks",
        "",
        "  1 passing, 1 failing",
        "",
      ]);
      assert.match(
        written,
        new RegExp(`1\\) ${suite}\\s+breaks:.*expected 1 to equal 2.* at .*${name}\\.js:\\d`, "s"),
      );
    }
  });

  it("says how long each test took, and in which file", async () => {
    for (const name of ["slow-entry.worker", "mixed-entry"]) {
      const { times } = await outcomeOf(`${name}.js`);
      for (const { file } of times) assert.equal(file, `tools/test-runner/test/programs/${name}.ts`);
      // The slow one runs into its limit of 50 ms.
      if (name === "slow-entry.worker") assert.isAtLeast(times[0]!.milliseconds, 49);
      else assert.lengthOf(times, 2);
    }
  });

  it("passes a filter on", async () => {
    for (const name of ["mixed-entry.js", "mixed-entry.worker.js"])
      assert.deepInclude(await outcomeOf(name, { grep: "holds" }), { passed: 1, failed: 0 });
  });

  it("counts an entry without tests as a failure", async () => {
    assert.equal(await breakdownOf("empty-entry.js"), "no test ran");
    assert.equal(await breakdownOf("empty-entry.worker.js"), "no test ran");
  });

  it("counts an entry that cannot be loaded as a failure", async () => {
    assert.match(await breakdownOf("unloadable-entry.js"), /Failed to fetch dynamically imported module/);
    assert.equal(await breakdownOf("throwing-entry.worker.js"), "Error: thrown while loading");
  });

  it("counts an entry that does not exist as a failure", async () => {
    assert.match(await breakdownOf("nowhere.js"), /Failed to fetch dynamically imported module/);
    assert.match(await breakdownOf("nowhere.worker.js"), /Failed to fetch dynamically imported module/);
  });

  it("charges a test with what it throws or rejects unnoticed", async () => {
    for (const [name, where] of [
      ["unhandled-entry.js", ""],
      ["unhandled-entry.worker.js", " in a worker"],
    ] as const)
      assert.deepEqual((await outcomeOf(name)).failures, [
        `what a test leaves behind${where} > rejects unnoticed: nobody listens`,
        `what a test leaves behind${where} > throws later: too late`,
      ]);
  });

  it("counts an error outside of all tests as a failure", async () => {
    assert.match(await breakdownOf("late-entry.js"), /Error: thrown outside of a test/);
    assert.match(
      await breakdownOf("late-entry.worker.js"),
      /Error: thrown outside of a test.*entry.worker.js:/,
    );
  });

  it("counts a test that runs past its time limit as a failure", async () => {
    const [failure, ...others] = (await outcomeOf("slow-entry.worker.js")).failures;
    assert.match(failure!, /^waits in vain: Timeout of /);
    assert.deepEqual(others, []);
  });

  it("counts an entry that no longer answers as a failure", async () => {
    for (const name of ["stuck-entry.js", "stuck-entry.worker.js"])
      assert.equal(await breakdownOf(name, { entryLimitMilliseconds: 1000 }), "it ran past its time limit");
  });

  it("counts a worker that ends by itself as a failure", async () => {
    assert.equal(await breakdownOf("closing-entry.worker.js"), "the worker ended before its last test");
  });

  it("counts a browser that dies, or does not start, as a failure", async () => {
    const { launch } = await chooseMachine(undefined);
    const dying: BrowserSuiteOptions["launch"] = async () => {
      const browser = await launch();
      const newPage = browser.newPage.bind(browser);
      browser.newPage = async () => {
        const page = await newPage();
        page.once("load", () => void browser.close());
        return page;
      };
      return browser;
    };
    assert.equal(await breakdownOf("stuck-entry.worker.js", { launch: dying }), "the page was closed");
    const missing = () => Promise.reject(new Error("no browser here"));
    assert.equal(await breakdownOf("mixed-entry.js", { launch: missing }), "no browser here");
  });
});
