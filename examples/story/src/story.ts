import { setImmediate } from "node:timers/promises";
import { SwitchableBackend } from "@backplane/core";
import { registry } from "./backends.js";
import { type Checkpoint, readCheckpoint } from "./checkpoint/checkpoint.js";
import { FileError, FileSource } from "./checkpoint/file.js";
import { loadWeights, weightBytes } from "./checkpoint/load.js";
import { Transformer } from "./model.js";
import type { Options } from "./options.js";
import { type Output, ProgressBar } from "./progress.js";
import { Sampler } from "./sampler.js";
import { readLlama2cTokenizer } from "./tokenizer/llama2c.js";
import { TextJoiner, type Tokenizer } from "./tokenizer/tokenizer.js";
import { Writer } from "./writer.js";

export interface Outputs {
  /** Gets the text and nothing else. */
  readonly text: Output;
  /** Gets progress and rates. */
  readonly notes: Output;
}

/** Writes on after the prompt with a model from a file, starting on a backend. */
export async function tellStory(
  options: Options & { readonly model: string },
  start: string,
  { text, notes }: Outputs,
  signal: AbortSignal,
): Promise<void> {
  await using file = await named(options.model, () => FileSource.open(options.model));
  const checkpoint = await named(options.model, () => readCheckpoint(file));
  const tokenizer = await tokenizerFor(options, checkpoint);
  const { shape } = checkpoint;
  const prompt = tokenizer.encode(options.prompt);
  if (prompt.length > shape.length)
    throw new FileError(`The prompt has ${prompt.length} tokens, and the model takes ${shape.length}.`);
  await using backend = new SwitchableBackend(registry, start);
  await backend.init();
  const { dtype } = options;
  for (const name of options.swap > 0 ? registry.names : [start])
    if (dtype === "f16" && name === start && !backend.supports("attention", { dtype }))
      throw new FileError(`${name} does not compute in ${dtype}.`);

  const bar = new ProgressBar(notes, "load");
  const size = `${megabytes(weightBytes(checkpoint))} to ${backend.capabilities.device.name}`;
  const loaded = await named(options.model, () =>
    loadWeights(backend, file, checkpoint, dtype, (fraction) => {
      bar.show(fraction, size);
      signal.throwIfAborted();
    }),
  );
  const room = Math.min(shape.length, prompt.length + options.tokens);
  const transformer = new Transformer(backend, shape, loaded.weights, room, dtype);
  const sampler = new Sampler(backend, shape.vocabulary, options);
  const writer = new Writer(backend, transformer, sampler);

  const meter = new Meter(backend, notes);
  const joiner = new TextJoiner(tokenizer, prompt.length === 1);
  text.write(options.prompt);
  for await (const token of writer.write(prompt, options.tokens, tokenizer.stops)) {
    text.write(joiner.add(token));
    meter.count();
    // Lets signals have their turn.
    await setImmediate();
    if (signal.aborted) break;
    if (options.swap > 0 && meter.total % options.swap === 0) await meter.swap();
  }
  text.write("\n");
  meter.finish();
  const { cacheBytes } = transformer;
  notes.write(`The keys and values of ${room} tokens take ${megabytes(cacheBytes)}.\n`);
  for (const part of [writer, sampler, transformer]) part.free();
  loaded.scope.dispose();
}

async function tokenizerFor(options: Options, checkpoint: Checkpoint): Promise<Tokenizer> {
  const path = options.tokenizer;
  const { vocabulary } = checkpoint.shape;
  if (path === undefined) {
    if (checkpoint.tokenizer !== undefined) return checkpoint.tokenizer;
    throw new FileError(`${options.model}: It has no tokenizer; name one with --tokenizer FILE.`);
  }
  return named(path, async () => {
    await using file = await FileSource.open(path);
    return readLlama2cTokenizer(await file.read(0, file.size), vocabulary);
  });
}

/** Puts the name of a file before what is wrong with it. */
async function named<Result>(path: string, body: () => Promise<Result>): Promise<Result> {
  try {
    return await body();
  } catch (error) {
    if (error instanceof FileError) throw new FileError(`${path}: ${error.message}`);
    throw error;
  }
}

/** Counts and times the tokens of the backend in use. */
class Meter {
  readonly #backend: SwitchableBackend;
  readonly #notes: Output;
  #start = performance.now();
  /** When the first token was there: what came before is the prompt. */
  #first = 0;
  #count = 0;
  #total = 0;

  constructor(backend: SwitchableBackend, notes: Output) {
    this.#backend = backend;
    this.#notes = notes;
  }

  get total(): number {
    return this.#total;
  }

  count(): void {
    if (this.#count === 0) this.#first = performance.now();
    this.#count += 1;
    this.#total += 1;
  }

  /** Goes on with the next backend. */
  async swap(): Promise<void> {
    const rate = this.#rate();
    const before = this.#backend.current;
    await this.#backend.use(registry.names.find((name) => name !== before)!);
    this.#notes.write(` [${before}: ${rate}; now ${this.#backend.current}] `);
    this.#start = performance.now();
    this.#count = 0;
  }

  finish(): void {
    this.#notes.write(`${this.#total} tokens. ${this.#backend.capabilities.device.name}: ${this.#rate()}.\n`);
  }

  #rate(): string {
    const seconds = (performance.now() - this.#first) / 1000;
    const first = `first token after ${(this.#first - this.#start).toFixed(0)} ms`;
    if (this.#count < 2) return first;
    return `${first}, then ${Math.round((this.#count - 1) / seconds).toLocaleString("en-US")} tokens/s`;
  }
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
