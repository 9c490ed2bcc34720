// Tags: once
import { spawn } from "node:child_process";
import { expect } from "chai";

const core = import.meta.resolve("@backplane/core");
const module = import.meta.resolve("#src/system-errors.js");

/** Runs a program that tells of errors of the system, and stops reading its output if it has some. */
function run(body: string): Promise<{ code: number | null; stderr: string }> {
  const program = `import { tellSystemErrors } from ${JSON.stringify(module)}; tellSystemErrors();\n${body}`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program]);
  child.stdout.once("data", () => child.stdout.destroy());
  let stderr = "";
  child.stderr.on("data", (data: Buffer) => {
    stderr += data.toString();
  });
  return new Promise((resolve) => child.once("close", (code) => resolve({ code, stderr })));
}

describe("a program that tells of errors of the system", () => {
  it("ends without a word if nobody reads on", async () => {
    const { code, stderr } = await run('setInterval(() => console.log("more"), 1);');
    expect({ code, stderr }).to.deep.equal({ code: 141, stderr: "" });
  });

  it("names a file that is not there in one line", async () => {
    for (const read of ['fs.readFileSync("./none")', 'await fs.promises.readFile("./none")']) {
      const { code, stderr } = await run(`import fs from "node:fs"; ${read};`);
      expect(stderr).to.equal("ENOENT: no such file or directory, open './none'\n");
      expect(code).to.equal(1);
    }
  });

  it("says in one line what a backend cannot do", async () => {
    const { code, stderr } = await run(
      `import { BackendRegistry } from ${JSON.stringify(core)}; await new BackendRegistry([]).open();`,
    );
    expect(stderr).to.match(/^open: [^\n]*\n$/);
    expect(code).to.equal(1);
  });

  it("shows where other errors come from", async () => {
    const { code, stderr } = await run('throw new TypeError("a mistake");');
    expect(stderr).to.match(/^TypeError: a mistake\n +at /);
    expect(code).to.equal(1);
  });
});
