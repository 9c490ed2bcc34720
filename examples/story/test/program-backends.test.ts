// Tags: once
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { makeFiles, story } from "./program.js";

describe("the story program, while it writes,", () => {
  let folder: string;
  let checkpoint: readonly string[];
  before(() => {
    ({ folder, checkpoint } = makeFiles());
  });
  after(() => rmSync(folder, { recursive: true }));

  it("goes on while the backend is swapped", () => {
    const options = ["--backend", "cpu", "--prompt", "the", "--temperature", "0", "--tokens", "8"];
    const { stdout } = story(...checkpoint, ...options);
    const swapped = story(...checkpoint, ...options, "--swap", "3");
    expect(swapped.status, swapped.stderr).to.equal(0);
    expect(swapped.stdout).to.equal(stdout);
    expect(swapped.stderr).to.match(/\[cpu: .*; now webgpu\].*\[webgpu: .*; now cpu\]/);
  });

  it("shows where the time goes, on both backends, and writes the same meanwhile", () => {
    const options = ["--prompt", "the", "--temperature", "0", "--tokens", "6"];
    const { stdout } = story(...checkpoint, ...options, "--backend", "cpu");
    for (const [backend, device] of [
      ["cpu", /^gemm +\d+ +[\d.]+ +[\d.]+ +[\d.]+$/m],
      ["webgpu", /^gemm +\S+ +\d+ +[\d.]+/m],
    ] as const) {
      const path = join(folder, `${backend}.json`);
      const profiled = story(...checkpoint, ...options, "--backend", backend, "--profile", path);
      expect(profiled.status, profiled.stderr).to.equal(0);
      expect(profiled.stdout).to.equal(stdout);
      expect(profiled.stderr).to.match(device);
      expect(profiled.stderr).to.match(/us on the device, [\d.]+ us on the host/);
      expect(profiled.stderr).to.match(/[\d.]+ us waiting for tokens/);
      const { traceEvents } = JSON.parse(readFileSync(path, "utf8")) as {
        traceEvents: readonly { name: string; ph: string; tid: number; ts?: number; dur?: number }[];
      };
      const stretches = traceEvents.filter(({ ph }) => ph === "X");
      expect([...new Set(stretches.map(({ tid }) => tid))].sort()).to.deep.equal([1, 2, 3]);
      expect(stretches.filter(({ tid }) => tid === 3)).to.have.lengthOf(6);
      for (const { ts, dur } of stretches) expect(ts! + dur!).to.be.at.least(ts!);
    }
    const swapped = story(...checkpoint, ...options, "--swap", "3", "--profile", join(folder, "x.json"));
    expect(swapped.status).to.equal(2);
    expect(swapped.stderr).to.match(/^--swap does not go with --profile: one backend/);
  });
});
