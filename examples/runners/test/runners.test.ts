import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assert } from "chai";

const folder = fileURLToPath(new URL("..", import.meta.url));

interface Example {
  readonly runner: string;
  /** What follows `node` on the command line. */
  readonly command: readonly string[];
  /** From what it prints: how many laws were kept, and how many skipped. */
  readonly count: (output: string) => { readonly kept: number; readonly skipped: number };
}

const bin = (name: string, file: string): string =>
  fileURLToPath(new URL(file, import.meta.resolve(`${name}/package.json`)));

const examples: readonly Example[] = [
  {
    runner: "mocha",
    command: [bin("mocha", "bin/mocha.js"), "--reporter", "json", "dist/mocha/backend.test.js"],
    count(output) {
      const { stats } = JSON.parse(output);
      return { kept: stats.passes, skipped: stats.pending };
    },
  },
  {
    runner: "node:test",
    command: ["--test", "--test-reporter", "tap", "dist/node-test/backend.test.js"],
    count(output) {
      const number = (name: string) => Number(new RegExp(`^# ${name} (\\d+)$`, "m").exec(output)?.[1]);
      return { kept: number("pass"), skipped: number("skipped") };
    },
  },
  {
    runner: "vitest",
    command: [bin("vitest", "vitest.mjs"), "run", "--dir", "src/vitest", "--reporter", "json"],
    count(output) {
      const { numPassedTests, numPendingTests } = JSON.parse(output);
      return { kept: numPassedTests, skipped: numPendingTests };
    },
  },
];

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

/** Against hangs only; less than a test may take. */
const hangMilliseconds = 900_000;

function run(command: readonly string[], env: Readonly<Record<string, string>>): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, command, {
      cwd: folder,
      env: { ...process.env, NO_COLOR: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: hangMilliseconds,
    });
    let [output, errors] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      errors += text;
    });
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output, errors }));
  });
}

describe("the conformance suite", () => {
  const counts = new Map<string, { readonly kept: number; readonly skipped: number }>();

  for (const { runner, command, count } of examples) {
    it(`runs under ${runner}`, async () => {
      const { code, output, errors } = await run(command, {});
      assert.equal(code, 0, output + errors);
      counts.set(runner, count(output));
    });

    it(`fails under ${runner} where a law is broken, and says how to see it again`, async () => {
      const { code, output, errors } = await run(command, { FORGETFUL: "1" });
      assert.isAbove(code ?? 0, 0, output + errors);
      assert.match(output, /gemm f32: stays within the error bound/);
      assert.match(output, /replay: \{/);
    });
  }

  it("keeps and skips as many laws under each", () => {
    assert.equal(counts.size, examples.length);
    const [first, ...others] = counts.values();
    assert.isAbove(first!.kept, 5);
    assert.isAbove(first!.skipped, 5);
    for (const other of others) assert.deepEqual(other, first);
  });
});
