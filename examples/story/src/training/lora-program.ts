import { SwitchableBackend } from "@backplane/core";
import { AdaptableWeights, readAdapter } from "../adapter.js";
import { registry } from "../backends.js";
import { FileSource } from "../checkpoint/disk.js";
import { loadWeights } from "../checkpoint/load.js";
import { Transformer } from "../model.js";
import type { Options } from "../options.js";
import { Random } from "../random.js";
import { openModel } from "../story.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { type Outputs, writeText } from "../writing.js";
import { corpusFor } from "./corpus.js";
import { LoraParameters } from "./lora.js";
import { copiedParameters } from "./parameters.js";
import { trainOn } from "./program.js";
import { Trainer } from "./trainer.js";

const batch = 16;
const length = 64;
const rate = 0.003;
const scale = 2;

/** What is written with the adapter and without it. */
const STORY_TOKENS = 80;

/** Trains an adapter for a model from a file, whose weights stay as they are, and shows what it changes. */
export async function trainAdapter(
  options: Options & { readonly model: string },
  start: string,
  outputs: Outputs,
  signal: AbortSignal,
): Promise<void> {
  const { notes } = outputs;
  await using model = await openModel(options);
  const { checkpoint, tokenizer } = model;
  const { shape } = checkpoint;
  const corpus = corpusFor(options.text, length, (text) => tokensOf(tokenizer, text));
  await using backend = new SwitchableBackend(registry, start);
  await backend.init();
  const { weights, scope } = await loadWeights(backend, model.file, checkpoint, "f32");
  const parameters = copiedParameters(backend, shape, weights);
  const lora = new LoraParameters(backend, shape, { rank: options.lora, scale }, new Random(options.seed));
  const { seed, steps } = options;
  const trained = [...lora.tensors.values()];
  const settings = { seed, steps, batch, length: Math.min(length, shape.length), rate };
  const trainer = new Trainer(backend, shape, parameters, trained, settings, lora.adaptation);
  const before = await trainer.heldOutLoss(corpus.heldOut);
  await trainOn(trainer, corpus, outputs, signal);
  const after = await trainer.heldOutLoss(corpus.heldOut);
  await lora.save(options.save);
  notes.write(
    `Loss of text that was held out, in nats per token: ${after.toFixed(3)}; without the adapter: ${before.toFixed(3)}.\n`,
  );

  const adaptable = new AdaptableWeights(backend, weights);
  await using file = await FileSource.open(options.save);
  const adapter = await readAdapter(backend, file, weights);
  const room = Math.min(shape.length, tokenizer.encode(options.prompt).length + STORY_TOKENS);
  const transformer = new Transformer(backend, shape, adaptable, room);
  const writing = { ...options, tokens: STORY_TOKENS, swap: 0 };
  for (const used of [undefined, adapter]) {
    adaptable.adapter = used;
    notes.write(used === undefined ? "\nWithout the adapter:\n" : "\nWith it:\n");
    const { prompt } = options;
    await writeText({ backend, transformer, tokenizer, prompt, options: writing, outputs, signal });
  }
  notes.write(`\nTo use it: npx -y pnpm@12 story --model ${options.model} --adapter ${options.save}\n`);
  transformer.free();
  adapter.free();
  scope.dispose();
}

/** The tokens of a text, line by line, as joining pieces takes more than proportionally long. */
function tokensOf(tokenizer: Tokenizer, text: Uint8Array): Int32Array {
  const lines = new TextDecoder().decode(text).split(/(?<=\n)/);
  return Int32Array.from(lines.flatMap((line) => tokenizer.encode(line).slice(1)));
}
