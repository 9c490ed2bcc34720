// Tags: soak, long
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { assert } from "chai";

const program = fileURLToPath(new URL("./programs/rounds.js", import.meta.url));
/** Against hangs only; less than a test may take. */
const hangMilliseconds = 900_000;

interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
}

/** Runs the program in a process of its own, which is killed only where it does not end by itself. */
function run(backend: string, rounds: number): Promise<Ended> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [program, backend, String(rounds)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    let output = "";
    let errors = "";
    child.stdout.on("data", (data: Buffer) => {
      output += data.toString();
    });
    child.stderr.on("data", (data: Buffer) => {
      errors += data.toString();
    });
    const timer = setTimeout(() => child.kill("SIGKILL"), hangMilliseconds);
    child.once("error", reject);
    child.once("close", (code) => {
      clearTimeout(timer);
      resolve({ code, output, errors });
    });
  });
}

describe("rounds of alloc, work and free in a process of their own", () => {
  for (const [backend, rounds] of [
    ["cpu0", 100_000],
    ["cpu2", 100_000],
    ["webgpu", 30_000],
  ] as const)
    it(`leave nothing behind after ${rounds} rounds on ${backend}, and the process ends by itself`, async () => {
      const { code, output, errors } = await run(backend, rounds);
      assert.equal(code, 0, `it did not end well by itself:\n${output}${errors}`);
      const { wrong, liveAllocations, liveBytes, early, late, disposed } = JSON.parse(output);
      assert.equal(wrong, 0, "wrong results");
      assert.deepEqual({ liveAllocations, liveBytes }, { liveAllocations: 0, liveBytes: 0 });
      assert.deepInclude(disposed, { liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
      // Two thirds of the rounds come after `early`: a leak of one allocation per round would show.
      const bound = `early ${JSON.stringify(early)}, late ${JSON.stringify(late)}`;
      assert.isAtMost(late.reservedBytes, 2 * early.reservedBytes + 2 ** 20, bound);
      assert.isAtMost(late.residentBytes, early.residentBytes + 64 * 2 ** 20, bound);
    });
});
