import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect } from "chai";
import { ggufFile, llama2cFile, llama2cTokenizerFile, pieces } from "./tiny.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));

function story(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("the story program", () => {
  let folder: string;
  let checkpoint: readonly string[];
  before(() => {
    folder = mkdtempSync(join(tmpdir(), "backplane-story-"));
    const write = (name: string, bytes: Uint8Array) => {
      writeFileSync(join(folder, name), bytes);
      return join(folder, name);
    };
    const tokenizer = write("tokenizer.bin", llama2cTokenizerFile(pieces));
    checkpoint = ["--model", write("tiny.bin", llama2cFile()), "--tokenizer", tokenizer];
    write("tiny.gguf", ggufFile("F32"));
  });
  after(() => rmSync(folder, { recursive: true }));

  it("writes the same with both kinds of files, for one seed", () => {
    const options = ["--backend", "cpu", "--prompt", "the sea", "--seed", "5", "--tokens", "12"];
    const first = story(...checkpoint, ...options);
    expect(first.status, first.stderr).to.equal(0);
    expect(first.stdout).to.match(/^the sea./);
    expect(first.stderr).to.match(/tokens\. WebAssembly SIMD.* first token after \d+ ms/);
    const second = story("--model", join(folder, "tiny.gguf"), ...options);
    expect(second.stdout).to.equal(first.stdout);
  });

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
    expect(swapped.stderr).to.match(/^--profile needs --model, and goes with neither --swap/);
  });

  it("trains, saves when it is interrupted, and writes with what it has learned", async () => {
    const text = join(folder, "text.md");
    writeFileSync(text, "The sea and the sun. ".repeat(100));
    const saved = join(folder, "saved.safetensors");
    const options = ["--backend", "cpu", "--seed", "1", "--save", saved];
    const child = spawn(process.execPath, [main, "--text", text, "--steps", "1000", ...options]);
    let notes = "";
    child.stderr.on("data", (data) => {
      notes += data;
      // The first sample comes after a quarter of the steps: the interruption is asked for long before that.
      if (!child.killed && notes.includes("parameters learn from")) child.kill("SIGINT");
    });
    const code = await new Promise((resolve) => child.once("close", resolve));
    expect(code, notes).to.equal(130);
    expect(notes).to.contain(`Saved as ${saved}.`).and.to.contain(`story --resume ${saved}`);

    const whole = story("--text", text, "--steps", "10", "--tokens", "4", ...options);
    expect(whole.status, whole.stderr).to.equal(0);
    expect(whole.stderr).to.match(/held out, in nats per byte: \d\.\d+; of a bigram model: \d\.\d+/);
    expect(whole.stderr).to.match(/\[cpu: .*; now webgpu\].*\[webgpu: .*; now cpu\]/);
    expect(existsSync(`${saved}.unfinished`)).to.equal(false);
  });

  it("trains an adapter, and writes with it", () => {
    const text = join(folder, "lines.md");
    writeFileSync(text, "the sea and the sun\n".repeat(100));
    const adapter = join(folder, "adapter.safetensors");
    const options = ["--backend", "cpu", "--seed", "1"];
    const trained = story(
      ...[...checkpoint, ...options, "--lora", "2", "--text", text, "--steps", "3", "--save", adapter],
    );
    expect(trained.status, trained.stderr).to.equal(0);
    expect(trained.stderr).to.match(/nats per token: [\d.]+; without the adapter: [\d.]+/);
    const used = story(...checkpoint, ...options, "--tokens", "5", "--adapter", adapter);
    expect(used.status, used.stderr).to.equal(0);
  });

  it("explains itself, and says what is wrong with a command or a file", () => {
    const help = story("--help");
    expect(help).to.include({ status: 0, stderr: "" });
    for (const option of ["model", "tokenizer", "prompt", "tokens", "temperature", "seed", "backend", "swap"])
      expect(help.stdout).to.contain(`--${option}`);
    const wrong = story("--model", "x", "--seed", "0");
    expect(wrong).to.include({ status: 2, stdout: "" });
    expect(wrong.stderr).to.match(/^--seed is "0"; allowed: whole numbers from 1/);
    const [, model] = checkpoint as [string, string];
    for (const [args, message] of [
      [["--resume", join(folder, "none")], /none: ENOENT/],
      [["--model", model], /tiny\.bin: It has no tokenizer; name one with --tokenizer FILE/],
      [[...checkpoint, "--adapter", model], /tiny\.bin: It is cut off: its header/],
      [["--model", model, "--tokenizer", model], /tiny\.bin: It ends after \d+ tokens/],
      [
        [...checkpoint, "--prompt", "the sea ".repeat(40)],
        /The prompt has \d+ tokens, and the model takes 40/,
      ],
    ] as const) {
      const { status, stderr } = story(...args, "--backend", "cpu");
      expect(status).to.equal(1);
      expect(stderr).to.match(message);
    }
  });
});
