// Tags: once
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assert } from "chai";

const resultsOnTheCpu = fileURLToPath(new URL("../results/2026-11-22-cpu.json", import.meta.url));

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
  for (const program of [
    "tfjs/main.js",
    "gpu-peers.js",
    "ranks/main.js",
    "ranks/measure.js",
    "host.js",
    "plots.js",
  ])
    it(`${program} explains itself, and refuses what it does not know`, async () => {
      const help = await run(program, "--help");
      assert.deepEqual([help.code, help.stderr], [0, ""]);
      assert.include(help.stdout, `node bench/dist/${program}`);
      const { code, stdout, stderr } = await run(program, "--frob");
      assert.deepEqual([code, stdout], [2, ""]);
      assert.equal(stderr, `Unknown option '--frob'\n\n${help.stdout}`);
    });

  it("tell of files that cannot be read or written, before they measure anything", async () => {
    const none = fileURLToPath(new URL("none/results.json", import.meta.url));
    const broken = fileURLToPath(import.meta.url);
    for (const [program, args, message] of [
      ["plots.js", [none], /^.*none.results\.json: ENOENT: .*\n$/],
      ["plots.js", [broken], /^.*command-line\.test\.js: Unexpected token .*\n$/],
      ["plots.js", [resultsOnTheCpu], /^.*cpu\.json: It has no copyBandwidth, .*\n$/],
      ["cpu/main.js", ["--from", none], /^.*none.results\.json: ENOENT: .*\n$/],
      ["main.js", ["--configuration", "cpu", "--json", none], /^ENOENT: .*none'\n$/],
      ["soak.js", ["--backend", "cpu", "--json", none], /^ENOENT: .*none'\n$/],
    ] as const) {
      const { code, stdout, stderr } = await run(program, ...args);
      assert.deepEqual([code, stdout], [1, ""], program);
      assert.match(stderr, message);
    }
  });

  it("refuse cases that there are not", async () => {
    for (const [program, args] of [
      ["gpu-peers.js", ["--only", "nothing"]],
      ["tfjs/main.js", ["--only", "nothing"]],
      ["numerics/main.js", ["--only", "nothing"]],
    ] as const)
      assert.include(await run(program, ...args), { code: 2, stdout: "" }, program);
  });

  it("say what is allowed", async () => {
    const { code, stderr } = await run("tfjs/main.js", "--rounds", "0");
    assert.equal(code, 2);
    assert.match(stderr, /^--rounds is 0; allowed: whole numbers from 1 on\n/);
  });
});
