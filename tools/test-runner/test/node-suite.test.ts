import { spawn } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert } from "chai";
import { runNodeTests } from "#src/node-suite.js";
import { workspaceRoot } from "#src/workspace.js";

/** Inside the workspace, so that mocha's own settings are found. */
const folder = join(workspaceRoot, "node_modules", ".cache", `backplane-node-suite-${process.pid}`);

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe("Node.js suite", () => {
  before(() => mkdirSync(folder, { recursive: true }));
  after(() => rmSync(folder, { recursive: true }));

  function outcomeOf(name: string, source: string, grep?: string, write?: (text: string) => void) {
    const file = join(folder, `${name}.mjs`);
    writeFileSync(file, source);
    return runNodeTests(name, [file], { env: {}, grep, ...(write && { write }) });
  }

  it("counts what passed and names what failed", async () => {
    const outcome = await outcomeOf(
      "mixed",
      `describe("suite", () => { it("holds", () => {}); it("breaks", () => { throw new Error("no"); }); });`,
    );
    assert.deepInclude(outcome, { passed: 1, failed: 1, failures: ["suite > breaks: no"] });
  });

  it("says how long each test and each hook took, and in which file", async () => {
    const wait = "() => new Promise((done) => setTimeout(done, 20))";
    const source = `describe("suite", () => { before(${wait}); it("waits", ${wait}); it.skip("not yet"); });`;
    const { times } = await outcomeOf("timed", source);
    assert.deepEqual(
      times.map(({ title }) => title),
      ['suite > "before all" hook for "waits"', "suite > waits", "suite > not yet"],
    );
    for (const { file } of times) assert.match(file, /^node_modules\/.*\/timed\.mjs$/);
    // Timers may fire up to a millisecond early.
    assert.deepEqual(
      times.map(({ milliseconds }) => milliseconds >= 19),
      [true, true, false],
    );
  });

  it("prints a line for each test", async () => {
    let text = "";
    await outcomeOf(
      "printed",
      `it("holds", () => {}); it("breaks", () => { throw 1; });`,
      undefined,
      (more) => {
        text += more;
      },
    );
    assert.match(text, / ms {2}holds\n +\d+ ms {2}FAILED: breaks\n.*1 passing.*1 failing.*1\) breaks/s);
  });

  it("runs where SwiftShader finds how many workers it may have", async () => {
    const outcome = await outcomeOf(
      "placed",
      `import { readFileSync } from "node:fs";
      it("is there", () => { if (!/^ThreadCount=1$/m.test(readFileSync("SwiftShader.ini"))) throw new Error("no"); });`,
    );
    assert.deepInclude(outcome, { passed: 1, failed: 0, failures: [] });
  });

  it("passes a filter on", async () => {
    const outcome = await outcomeOf("filtered", `it("one", () => {}); it("two", () => {});`, "two");
    assert.equal(outcome.passed, 1);
  });

  it("counts a process that dies as a failure", async () => {
    const outcome = await outcomeOf("dying", `it("dies", () => process.kill(process.pid, "SIGKILL"));`);
    assert.equal(outcome.failed, 1);
    assert.match(outcome.failures[0]!, /ended early \(SIGKILL\)/);
  });

  it("ends with the process that began it, however that ends", async () => {
    writeFileSync(
      join(folder, "endless.mjs"),
      `it("goes on", () => new Promise(() => { process.stdout.write("pid " + process.pid); setInterval(() => {}, 9); }));`,
    );
    const suite = JSON.stringify(new URL("../dist/node-suite.js", import.meta.url).href);
    const file = JSON.stringify(join(folder, "endless.mjs"));
    const program = `import { runNodeTests } from ${suite};
      await runNodeTests("endless", [${file}], { env: {}, grep: undefined, write: (text) => process.stdout.write(text) });`;
    const parent = spawn(process.execPath, ["--input-type=module", "-e", program]);
    const pid = await new Promise<number>((found) => {
      let text = "";
      parent.stdout.on("data", (more) => {
        text += more;
        const number = /pid (\d+)/.exec(text)?.[1];
        if (number !== undefined) found(Number(number));
      });
    });
    parent.kill("SIGKILL");
    // Until there is no such process any more.
    while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
  });

  it("counts a crash after the last test as a failure", async () => {
    const outcome = await outcomeOf(
      "late",
      `it("holds", () => { process.on("exit", () => process.kill(process.pid, "SIGKILL")); });`,
    );
    assert.deepInclude(outcome, { passed: 1, failed: 1 });
    assert.match(outcome.failures[0]!, /did not end well/);
  });

  it("counts a file that cannot be loaded as a failure", async () => {
    const outcome = await outcomeOf("unloadable", `import "./missing.mjs";`);
    assert.equal(outcome.failed, 1);
  });
});
