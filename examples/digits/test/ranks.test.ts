// Tags: once, long
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { mpiNames, testMpi, type UnpackedMpi } from "@backplane/debian";
import { assert } from "chai";
import type { RunResult } from "#src/result.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));

/** Runs the program on several ranks; without a launcher on one. */
async function digits(launcher: UnpackedMpi | undefined, ranks: number, line: string) {
  const program = [process.execPath, main, ...line.split(" ")];
  const [first, ...rest] =
    launcher === undefined || ranks === 1
      ? program
      : [launcher.command, ...launcher.options, "-n", String(ranks), ...program];
  const child = spawn(first!, rest, {
    env: { ...process.env, ...launcher?.environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (text) => {
    stdout += text;
  });
  child.stderr.on("data", (text) => {
    stderr += text;
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  return { code, stdout, stderr };
}

/** 12 steps of 25 images, which 4 ranks cannot share evenly. */
const line = "--backend cpu --threads 0 --batch 25 --epochs 0.005 --json";

async function resultOf(launcher: UnpackedMpi | undefined, ranks: number, more = ""): Promise<RunResult> {
  const { code, stdout, stderr } = await digits(launcher, ranks, line + more);
  assert.equal(code, 0, stderr);
  const result: RunResult = JSON.parse(stdout);
  assert.equal(result.ranks, ranks);
  return result;
}

/** Within the rounding of f32, which a few steps enlarge. */
function assertSame(a: RunResult, b: RunResult): void {
  const [losses, others] = [a, b].map(({ readings }) => readings.map(({ step, loss }) => ({ step, loss })));
  assert.isNotEmpty(losses);
  assert.deepEqual(
    losses!.map(({ step }) => step),
    others!.map(({ step }) => step),
  );
  for (const [i, { loss }] of losses!.entries()) assert.closeTo(loss, others![i]!.loss, 1e-5 * loss);
}

describe("the digits program without MPI", () => {
  it("is one rank, which takes the whole batch", async () => {
    const { readings } = await resultOf(undefined, 1);
    assert.equal(readings.at(-1)?.step, 12);
  });
});

describe("the digits program on several ranks", () => {
  let folder = "";
  let whole: RunResult;
  const launchers = new Map<string, UnpackedMpi>();
  before(async function () {
    for (const name of mpiNames) launchers.set(name, await testMpi(name, () => this.skip()));
    folder = await mkdtemp(join(tmpdir(), "backplane-ranks-"));
    whole = await resultOf(launchers.get("mpich")!, 1);
  });
  after(async () => {
    if (folder !== "") await rm(folder, { recursive: true, force: true });
  });

  for (const name of mpiNames)
    it(`has the losses of one process with the whole batch, on ${name}`, async () => {
      assertSame(whole, await resultOf(launchers.get(name)!, name === "mpich" ? 4 : 3));
    });

  it("goes on from a checkpoint with another number of ranks", async () => {
    const file = join(folder, "half.safetensors");
    const mpi = launchers.get("mpich")!;
    await resultOf(mpi, 2, ` --stop 7 --save ${file}`);
    const rest = await resultOf(mpi, 3, ` --resume ${file}`);
    assert.deepEqual(
      rest.readings.map(({ step }) => step),
      [12],
    );
    assertSame({ ...whole, readings: whole.readings.slice(-1) }, rest);
  });

  it("refuses to swap with several ranks", async () => {
    const { code, stderr } = await digits(launchers.get("mpich")!, 2, "--json");
    assert.notEqual(code, 0);
    assert.include(stderr, '--backend is "swap"; allowed with several processes: cpu, webgpu');
  });
});
