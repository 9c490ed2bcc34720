import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { assert, expect } from "chai";
import { checkWritable, FileSource } from "#src/checkpoint/disk.js";
import { FileError } from "#src/checkpoint/file.js";
import { UsageError } from "#src/command-line.js";
import { parseOptions } from "#src/options.js";
import { ggufFile, llama2cFile, llama2cTokenizerFile, pieces } from "./tiny.js";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));

function story(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...args], { encoding: "utf8" });
  return { status, stdout, stderr };
}

/** The FileError with which something ends. */
async function refused(body: Promise<unknown>): Promise<FileError> {
  try {
    await body;
  } catch (error) {
    if (error instanceof FileError) return error;
    throw error;
  }
  return assert.fail("it is done");
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
    expect(swapped.stderr).to.match(/^--swap does not go with --profile: one backend/);
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
    expect(notes)
      .to.contain(`Saved as ${saved}.`)
      .and.to.contain(`story --text ${text} --resume ${saved} --save ${saved}`);

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

  it("says what the system refuses", async () => {
    for (const [path, message] of [
      [join(folder, "none", "file"), /^ENOENT: .*none'$/],
      [folder, /is no file that could be replaced/],
      [join(folder, "tiny.gguf", "file"), /^(?:ENOTDIR|EACCES): /],
    ] as const)
      assert.match((await refused(checkWritable(path))).message, message);
    await checkWritable(join(folder, "new file"));
    await checkWritable(join(folder, "tiny.gguf"));
    await using file = await FileSource.open(folder);
    assert.match((await refused(file.read(0, 1))).message, /^EISDIR: /);
  });

  it("never takes a file that it reads for one that it writes", () => {
    for (const [args, message] of [
      [["--model", "a", "--lora", "2", "--save", "./a"], /^--save and --model are the same file/],
      [["--model", "a", "--lora", "2", "--tokenizer", "b", "--save", "b"], /^--save and --tokenizer are/],
      [["--model", "adapter.safetensors", "--lora", "2"], /^--save and --model are/],
      [["--model", "a", "--resume", "a"], /^--save and --model are/],
      [["--text", "a", "--save", "b/../a"], /^--save and --text are/],
      [["--model", "a", "--adapter", "b", "--profile", "b"], /^--profile and --adapter are/],
    ] as const)
      expect(() => parseOptions(args)).to.throw(UsageError, message);
    for (const [args, place] of [
      [[], "story.safetensors"],
      [["--resume", "half"], "half"],
      [["--model", "story.safetensors", "--lora", "2"], "adapter.safetensors"],
      [["--model", "a", "--resume", "half"], "half"],
      [["--model", "a", "--resume", "half", "--save", "whole"], "whole"],
    ] as const)
      expect(parseOptions(args).save).to.equal(place);
  });

  it("refuses options that it would not heed", () => {
    for (const [args, message] of [
      [["--lora", "2"], /^--lora does not go with training a model/],
      [["--adapter", "a"], /^--adapter does not go with training a model/],
      [["--dtype", "f16"], /^--dtype does not go with training a model/],
      [["--model", "a", "--lora", "2", "--adapter", "b"], /^--adapter does not go with training an adapter/],
      [["--model", "a", "--lora", "2", "--dtype", "f16"], /^--dtype does not go with training an adapter/],
      [["--model", "a", "--lora", "2", "--profile", "b"], /^--profile does not go with training an/],
      [["--model", "a", "--steps", "3"], /^--steps does not go with writing/],
      [["--model", "a", "--save", "b"], /^--save does not go with writing/],
      [["--resume", "a", "--steps", "3"], /^--steps does not go with --resume/],
      [["--model", "b", "--resume", "a", "--seed", "3"], /^--seed does not go with --resume/],
      [["--model", "a", "--adapter", "b", "--dtype", "f16"], /^--adapter needs --dtype f32/],
    ] as const)
      expect(() => parseOptions(args)).to.throw(UsageError, message);
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
    const missing = join(folder, "none", "saved");
    for (const [args, message] of [
      [["--resume", join(folder, "none")], /none: ENOENT/],
      [["--save", missing], /ENOENT: .*access '.*none'/],
      [[...checkpoint, "--profile", missing], /ENOENT: .*access '.*none'/],
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
