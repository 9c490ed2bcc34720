import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { digits, resultOf } from "./program.js";

describe("the digits program", () => {
  it("explains itself", async () => {
    const { code, stdout } = await digits("--help");
    expect(code).to.equal(0);
    for (const option of [
      "backend",
      "model",
      "save",
      "stop",
      "resume",
      "svg",
      "seed",
      "epochs",
      "batch",
      "threads",
      "json",
      "help",
    ])
      expect(stdout).to.contain(`--${option}`);
  });

  it("trains, swaps in mid-epoch and back, and leaves nothing live", async () => {
    const result = resultOf(await digits("--epochs 0.1 --json"));
    expect(result).to.include({ mode: "swap", model: "mlp", seed: 1, epochs: 0.1, batch: 100 });
    expect(result.backends.map(({ name, available }) => [name, available])).to.deep.equal([
      ["webgpu", true],
      ["cpu", true],
    ]);
    expect(result.stretches.map(({ backend }) => backend)).to.deep.equal(["cpu", "webgpu", "cpu"]);
    expect(result.stretches.reduce((sum, { images }) => sum + images, 0)).to.equal(6000);
    expect(result.stretches[2]!.loss).to.be.lessThan(result.stretches[0]!.loss);
    for (const { seconds, images, imagesPerSecond } of result.stretches)
      expect(imagesPerSecond).to.be.closeTo(images / seconds, 1e-6 * imagesPerSecond);
    expect(result.swaps.map(({ from, to }) => `${from} to ${to}`)).to.deep.equal([
      "cpu to webgpu",
      "webgpu to cpu",
      "cpu to webgpu",
    ]);
    // The parameters and as many velocities; after training the parameters alone.
    for (const { allocations, bytes } of result.swaps.slice(0, 2)) {
      expect(allocations).to.equal(result.memory.training.liveAllocations);
      expect(bytes).to.equal(result.memory.training.liveBytes);
    }
    expect(result.swaps[2]!.bytes).to.equal(result.memory.training.liveBytes / 2);
    expect(result.test.images).to.equal(10_000);
    expect(result.test.accuracy).to.equal(result.test.correct / 10_000);
    expect(result.test.accuracy).to.be.greaterThan(0.85);
    expect(result.difference!.absolute).to.be.greaterThan(0);
    expect(result.difference!.relative).to.be.lessThan(1e-5);
    expect(result.memory.freed).to.include({ liveAllocations: 0, liveBytes: 0 });
    expect(result.memory.disposed).to.include({ liveAllocations: 0, liveBytes: 0, reservedBytes: 0 });
  });

  it("goes on from a checkpoint to the same bits, and draws the loss", async () => {
    const folder = await mkdtemp(join(tmpdir(), "backplane-digits-"));
    const file = (name: string): string => join(folder, name);
    try {
      const line = "--backend cpu --epochs 0.05 --json";
      const whole = resultOf(await digits(`${line} --save ${file("whole")} --svg ${file("loss.svg")}`));
      resultOf(await digits(`${line} --stop 17 --save ${file("part")}`));
      const rest = resultOf(await digits(`${line} --resume ${file("part")} --save ${file("rest")}`));
      expect(rest.stretches.map(({ steps }) => steps)).to.deep.equal([13]);
      expect(rest.test).to.deep.equal(whole.test);
      expect((await readFile(file("rest"))).equals(await readFile(file("whole")))).to.equal(true);
      expect(await readFile(file("loss.svg"), "utf8")).to.match(/^<svg /);
      const { code, stderr } = await digits(`${line} --seed 2 --resume ${file("part")}`);
      expect(code).to.equal(2);
      expect(stderr).to.contain('--seed is "2"; allowed with this checkpoint: 1');
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  });

  it("stops cleanly when it is interrupted", async function () {
    // Windows ends a process outright where others send it a signal.
    if (process.platform === "win32") this.skip();
    // Long before the end, however late that is: what it prints first comes right before the training.
    const { code, stdout, stderr } = await digits("--backend cpu --epochs 1000 --json", {
      stopAt: "Backends of this machine",
    });
    expect(code).to.equal(130);
    expect(stdout).to.equal("");
    expect(stderr).to.match(/Stopped; the backend was closed\.\n$/);
  });
});
