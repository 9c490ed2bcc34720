// Tags: once
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { unavailableReason } from "@backplane/software-adapter";
import { expect } from "chai";
import { digits, resultOf } from "./program.js";

/** A Vulkan without any driver: no GPU, whatever the machine has. */
const noGpu = { VK_ICD_FILENAMES: "/nonexistent.json" };

describe("the digits program, by its options and its machine,", () => {
  it("answers bad options with its usage and exit code 2", async () => {
    const { code, stdout, stderr } = await digits("--backend abacus");
    expect(code).to.equal(2);
    expect(stdout).to.equal("");
    expect(stderr).to.match(/^--backend is "abacus"; allowed: cpu, webgpu, swap\n\nTrains/);
  });

  it("gives the same result for the same seed, and another for another", async () => {
    const outcome = async (seed: number) => {
      const result = resultOf(await digits(`--backend cpu --epochs 0.05 --json --seed ${seed}`));
      expect(result.difference).to.equal(null);
      return { loss: result.stretches[0]!.loss, correct: result.test.correct };
    };
    const first = await outcome(3);
    expect(await outcome(3)).to.deep.equal(first);
    expect(await outcome(4)).not.to.deep.equal(first);
  });

  it("says what is wrong with a file, before it trains", async () => {
    const missing = join(tmpdir(), "backplane-digits-missing", "file");
    const fails = async (line: string, reason: string | RegExp) => {
      const { code, stdout, stderr } = await digits(`--backend cpu --epochs 0.02 --json ${line}`);
      expect(code, stderr).to.equal(1);
      expect(stdout).to.equal("");
      expect(stderr).to.match(typeof reason === "string" ? new RegExp(`${reason}\\n$`) : reason);
      expect(stderr).not.to.contain("train");
    };
    await fails(`--svg ${missing}`, /^ENOENT: .+'\n$/);
    await fails(`--resume ${missing}`, /\nENOENT: .+\n$/);
    const text = fileURLToPath(new URL("../package.json", import.meta.url));
    await fails(`--resume ${text}`, "package.json: safetensors: the file is broken: .+");
  });

  it("starts again on the software adapter where there is no GPU, and says so", async function () {
    if (unavailableReason() !== undefined) this.skip();
    const ending = await digits("--epochs 0.02 --json", { env: noGpu });
    const result = resultOf(ending);
    expect(ending.stderr).to.match(/There is no GPU here: .+\. WebGPU runs on a software adapter instead\./);
    expect(result.stretches.map(({ software }) => software)).to.deep.equal([false, true, false]);
  });

  it("runs on the CPU alone where there is no adapter at all, and says so", async () => {
    const ending = await digits("--epochs 0.02 --json", {
      env: { ...noGpu, BACKPLANE_NO_GPU: "as a test has it" },
    });
    const result = resultOf(ending);
    expect(ending.stderr).to.match(/No WebGPU here, and .+: everything runs on the CPU\./);
    expect(result.mode).to.equal("cpu");
    const webgpu = result.backends.find(({ name }) => name === "webgpu")!;
    expect(webgpu.available === false && webgpu.reason.length > 0).to.equal(true);
  });

  it("fails with the reason where WebGPU alone was asked for and is not there", async () => {
    const { code, stdout, stderr } = await digits("--backend webgpu --json", {
      env: { ...noGpu, BACKPLANE_NO_GPU: "as a test has it" },
    });
    expect(code).to.equal(1);
    expect(stdout).to.equal("");
    expect(stderr).to.match(/No WebGPU here: .+; the software adapter did not start\.\n$/);
  });
});
