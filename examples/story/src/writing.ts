import { setImmediate } from "node:timers/promises";
import type { SwitchableBackend } from "@backplane/core";
import type { Output } from "@backplane/example-digits/progress.js";
import { registry } from "./backends.js";
import { Meter } from "./meter.js";
import type { Transformer } from "./model.js";
import { Sampler, type SamplerOptions } from "./sampler.js";
import { TextJoiner, type Tokenizer } from "./tokenizer/tokenizer.js";
import { type Watch, Writer } from "./writer.js";

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
  readonly watch?: Watch;
}

/** Writes on after the prompt, and swaps the backend meanwhile if asked to. */
export async function writeText(writing: Writing): Promise<void> {
  const { backend, transformer, tokenizer, options, signal } = writing;
  const { text, notes } = writing.outputs;
  const prompt = tokenizer.encode(writing.prompt);
  const sampler = new Sampler(backend, transformer.shape.vocabulary, options);
  const writer = new Writer(backend, transformer, sampler, writing.watch);
  const meter = new Meter();
  const joiner = new TextJoiner(tokenizer, prompt.length === 1);
  text.write(writing.prompt);
  for await (const token of writer.write(prompt, options.tokens, tokenizer.stops)) {
    text.write(joiner.add(token));
    meter.count();
    // Lets signals have their turn.
    await setImmediate();
    if (signal.aborted) break;
    const isDue = options.swap > 0 && meter.total % options.swap === 0;
    if (!isDue || meter.total >= options.tokens) continue;
    const before = backend.current;
    const rate = String(meter);
    await backend.use(registry.names.find((name) => name !== before)!);
    notes.write(` [${before}: ${rate}; now ${backend.current}] `);
    meter.restart();
  }
  text.write("\n");
  notes.write(`${meter.total} tokens. ${backend.capabilities.device.name}: ${meter}.\n`);
  writer.free();
  sampler.free();
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
