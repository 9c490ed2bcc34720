// Tags: once
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assert } from "chai";

interface Ending {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function run(program: string, ...args: string[]): Promise<Ending> {
  const file = fileURLToPath(new URL(`../dist/${program}`, import.meta.url));
  return new Promise((resolve) => {
    execFile(process.execPath, [file, ...args], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

describe("programs of the benchmark", () => {
  for (const program of ["tfjs/main.js", "gpu-peers.js", "ranks/main.js"])
    it(`${program} explains itself, and refuses what it does not know`, async () => {
      const help = await run(program, "--help");
      assert.deepEqual([help.code, help.stderr], [0, ""]);
      assert.include(help.stdout, `node bench/dist/${program}`);
      const { code, stdout, stderr } = await run(program, "--frob");
      assert.deepEqual([code, stdout], [2, ""]);
      assert.equal(stderr, `Unknown option '--frob'\n\n${help.stdout}`);
    });

  it("say what is allowed", async () => {
    const { code, stderr } = await run("tfjs/main.js", "--rounds", "0");
    assert.equal(code, 2);
    assert.match(stderr, /^--rounds is 0; allowed: whole numbers from 1 on\n/);
  });
});
