// Tags: once
import { rmSync } from "node:fs";
import { join } from "node:path";
import { assert, expect } from "chai";
import { checkWritable, FileSource } from "#src/checkpoint/disk.js";
import { FileError } from "#src/checkpoint/file.js";
import { UsageError } from "#src/command-line.js";
import { parseOptions } from "#src/options.js";
import { makeFiles, story } from "./program.js";

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

describe("the story program, about its commands and files,", () => {
  let folder: string;
  let checkpoint: readonly string[];
  before(() => {
    ({ folder, checkpoint } = makeFiles());
  });
  after(() => rmSync(folder, { recursive: true }));

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
      [["--round-inputs"], /^--round-inputs does not go with training a model/],
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
