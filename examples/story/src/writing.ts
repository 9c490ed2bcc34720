import { setImmediate } from "node:timers/promises";
import type { SwitchableBackend } from "@backplane/core";
import { registry } from "./backends.js";
import type { Transformer } from "./model.js";
import type { Output } from "./progress.js";
import { Sampler, type SamplerOptions } from "./sampler.js";
import { TextJoiner, type Tokenizer } from "./tokenizer/tokenizer.js";
import { Writer } from "./writer.js";

export interface Outputs {
  /** Gets the text and nothing else. */
  readonly text: Output;
  /** Gets progress and rates. */
  readonly notes: Output;
}

export interface WritingOptions extends SamplerOptions {
  /** The most tokens that are written. */
  readonly tokens: number;
  /** Tokens after which another backend takes over; 0: none does. */
  readonly swap: number;
}

export interface Writing {
  readonly backend: SwitchableBackend;
  readonly transformer: Transformer;
  readonly tokenizer: Tokenizer;
  readonly prompt: string;
  readonly options: WritingOptions;
  readonly outputs: Outputs;
  /** Stops after the next token. */
  readonly signal: AbortSignal;
}

/** Writes on after the prompt, and swaps the backend meanwhile if asked to. */
export async function writeText(writing: Writing): Promise<void> {
  const { backend, transformer, tokenizer, options, signal } = writing;
  const { text, notes } = writing.outputs;
  const prompt = tokenizer.encode(writing.prompt);
  const sampler = new Sampler(backend, transformer.shape.vocabulary, options);
  const writer = new Writer(backend, transformer, sampler);
  const meter = new Meter(backend, notes);
  const joiner = new TextJoiner(tokenizer, prompt.length === 1);
  text.write(writing.prompt);
  for await (const token of writer.write(prompt, options.tokens, tokenizer.stops)) {
    text.write(joiner.add(token));
    meter.count();
    // Lets signals have their turn.
    await setImmediate();
    if (signal.aborted) break;
    const isDue = options.swap > 0 && meter.total % options.swap === 0;
    if (isDue && meter.total < options.tokens) await meter.swap();
  }
  text.write("\n");
  meter.finish();
  writer.free();
  sampler.free();
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

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
