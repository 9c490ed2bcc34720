// Tags: once
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { arrays, pictures, safetensors } from "./model.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));

function cnn(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("the cnn program", () => {
  let folder: string;
  let model: string;
  let images: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "backplane-cnn-"));
    model = join(folder, "model.safetensors");
    images = join(folder, "pictures.json");
    writeFileSync(model, safetensors(arrays));
    writeFileSync(
      images,
      JSON.stringify({ a: { pixels: [...pictures[0]!] }, b: { pixels: [...pictures[1]!] } }),
    );
  });
  after(() => rmSync(folder, { recursive: true }));

  it("classifies on both backends and across a swap, and finds the same", () => {
    const { status, stdout, stderr } = cnn(model, images);
    expect(status, stderr).to.equal(0);
    const lines = stdout.trim().split("\n");
    expect(lines.map((line) => line.slice(0, 13).trim())).to.deep.equal(["cpu", "webgpu", "cpu to webgpu"]);
    const [first, ...others] = lines.map((line) => line.slice(14));
    expect(first).to.match(/^a is \d, b is \d$/);
    for (const other of others) expect(other).to.equal(first);
  });

  it("fails if logits are not those of the file", () => {
    const wrong = join(folder, "wrong.json");
    const picture = { pixels: [...pictures[0]!], logits: new Array(10).fill(100) };
    writeFileSync(wrong, JSON.stringify({ a: picture }));
    const { status, stdout, stderr } = cnn(model, wrong, "--backend", "cpu");
    expect(status).to.equal(1);
    expect(stdout).to.match(/^cpu .*; largest difference \d/);
    expect(stderr).to.contain("Logits differ by more than 0.0001.");
  });

  it("explains itself, and says what is wrong with a command or a file", () => {
    const help = cnn("--help");
    expect(help).to.include({ status: 0, stderr: "" });
    expect(help.stdout).to.contain("MODEL").and.to.contain("--backend");
    expect(cnn(model)).to.include({ status: 2 });
    expect(cnn(model).stderr).to.match(/^1 files are named; needed: MODEL and PICTURES\n\nClassifies/);
    expect(cnn(model, images, "--backend", "abacus").stderr).to.match(
      /^--backend is "abacus"; allowed: all,/,
    );
    const missing = cnn(join(folder, "none"), images);
    expect(missing.status).to.equal(1);
    expect(missing.stderr).to.match(/none: ENOENT/);
    const swapped = cnn(images, model);
    expect(swapped.status).to.equal(1);
    expect(swapped.stderr).to.match(/pictures\.json: .*its header/);
  });
});
