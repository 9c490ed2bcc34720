import { execFileSync, spawn } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { type Options, parseOptions } from "#src/options.js";
import { main, makeFiles, story } from "./program.js";

/** The options of the command that the program told the user to run, as a shell takes it apart. */
function told(notes: string, introduction: string): Options {
  const words = notes.split(`${introduction}: npx -y pnpm@12 story `)[1]!.split("\n")[0]!;
  const printed = execFileSync("sh", ["-c", `printf '%s\\n' ${words}`], { encoding: "utf8" });
  return parseOptions(printed.trimEnd().split("\n"));
}

describe("the story program", () => {
  let folder: string;
  let checkpoint: readonly string[];
  before(() => {
    ({ folder, checkpoint } = makeFiles());
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

  it("trains, saves when it is interrupted, and writes with what it has learned", async () => {
    const text = join(folder, "text.md");
    writeFileSync(text, "The sea and the sun. ".repeat(100));
    const saved = join(folder, "what it's learned.safetensors");
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
    expect(notes).to.contain(`Saved as ${saved}.`);
    // Another backend would not go on to the same bits.
    expect(told(notes, "To go on")).to.include({ text, resume: saved, save: saved, backend: "cpu" });

    const whole = story("--text", text, "--steps", "10", "--tokens", "4", ...options);
    expect(whole.status, whole.stderr).to.equal(0);
    expect(told(whole.stderr, "To read more of it")).to.include({ model: saved });
    expect(whole.stderr).to.match(/held out, in nats per byte: \d\.\d+; of a bigram model: \d\.\d+/);
    expect(whole.stderr).to.match(/\[cpu: .*; now webgpu\].*\[webgpu: .*; now cpu\]/);
    expect(existsSync(`${saved}.unfinished`)).to.equal(false);
  });

  it("trains an adapter, and writes with it", () => {
    const text = join(folder, "lines.md");
    writeFileSync(text, "the sea and the sun\n".repeat(100));
    const adapter = join(folder, "an adapter.safetensors");
    const options = ["--backend", "cpu", "--seed", "1"];
    const trained = story(
      ...[...checkpoint, ...options, "--lora", "2", "--text", text, "--steps", "3", "--save", adapter],
    );
    expect(trained.status, trained.stderr).to.equal(0);
    expect(trained.stderr).to.match(/nats per token: [\d.]+; without the adapter: [\d.]+/);
    const [, model, , tokenizer] = checkpoint;
    expect(told(trained.stderr, "To use it")).to.include({ model, tokenizer, adapter });
    const used = story(...checkpoint, ...options, "--tokens", "5", "--adapter", adapter);
    expect(used.status, used.stderr).to.equal(0);
  });
});
