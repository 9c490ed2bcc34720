import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const program = fileURLToPath(new URL("../dist/main.js", import.meta.url));
const start = (...args: string[]) => promisify(execFile)(process.execPath, [program, ...args]);

describe("the program", () => {
  it("trains across swaps, and recognizes most digits", async () => {
    const { stdout } = await start("--steps", "60", "--webgpu-steps", "1");
    const steps = [...stdout.matchAll(/^(cpu|webgpu) +(\d+) steps in/gm)].map(([, name, count]) => [
      name,
      count,
    ]);
    assert.deepEqual(steps, [
      ["cpu", "30"],
      ["webgpu", "1"],
      ["cpu", "30"],
    ]);
    const accuracy = Number(/([\d.]+)% of the test images/.exec(stdout)![1]);
    assert.ok(accuracy > 60, `${accuracy}% are recognized; expected: more than 60%`);
  });

  it("explains its options, and refuses others", async () => {
    const { stdout } = await start("--help");
    assert.match(stdout, /--backend cpu\|webgpu\|swap/);
    await assert.rejects(start("--backend", "tpu"), { code: 2 });
    await assert.rejects(start("--steps", "0"), { code: 2 });
  });
});
