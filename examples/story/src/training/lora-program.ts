import { SwitchableBackend } from "@backplane/core";
import { disposeParameters, parametersOf, type Tensor } from "@backplane/tensor";
import {
  ADAPTER_KEY,
  AdaptableWeights,
  type AdapterSizes,
  adapterSizesFrom,
  readAdapter,
} from "../adapter.js";
import { registry } from "../backends.js";
import { checkWritable, FileSource } from "../checkpoint/disk.js";
import { FileError, named } from "../checkpoint/file.js";
import { weightBytes } from "../checkpoint/load.js";
import { callWith } from "../command-line.js";
import { Transformer } from "../model.js";
import type { Options } from "../options.js";
import { Random } from "../random.js";
import type { Shape } from "../shape.js";
import { loadShown, openModel } from "../story.js";
import type { Tokenizer } from "../tokenizer/tokenizer.js";
import { megabytes, type Outputs, writeText } from "../writing.js";
import { corpusFor } from "./corpus.js";
import { LoraParameters } from "./lora.js";
import { movedParameters, type Parameters, weightsOf } from "./parameters.js";
import { continuation, grouped, trainOn } from "./program.js";
import { SavedTraining, saveTraining } from "./saving.js";
import { Trainer, type TrainingOptions } from "./trainer.js";

const batch = 16;
const length = 64;
const rate = 0.003;
const scale = 2;

/** Trains an adapter for a model from a file, whose weights stay as they are, and shows what it changes. */
export async function trainAdapter(
  options: Options & { readonly model: string },
  start: string,
  outputs: Outputs,
  signal: AbortSignal,
): Promise<void> {
  const { notes } = outputs;
  await checkWritable(options.save);
  await using model = await openModel(options);
  const { checkpoint, tokenizer } = model;
  const { shape } = checkpoint;
  const corpus = corpusFor(options.text, length, (text) => tokensOf(tokenizer, text));
  await using backend = new SwitchableBackend(registry, start);
  await backend.init();
  const loaded = await loadShown(backend, model, options, outputs, signal);
  const parameters = movedParameters(backend, shape, loaded);
  const [stored, moved] = [weightBytes(checkpoint), 4 * numbersOf(parametersOf(parameters))];
  if (moved > stored)
    notes.write(`For the training the weights become f32: ${megabytes(moved)} on the device.\n`);
  const { lora, trainer } = await trainingFor(backend, shape, parameters, options);
  const count = numbersOf(lora.tensors);
  notes.write(
    `${grouped(count)} parameters of an adapter learn from ${grouped(corpus.training.length)} tokens on ${backend.capabilities.device.name}.\n`,
  );
  const isComplete = await trainOn(trainer, corpus, outputs, signal);
  await saveTraining(options.save, lora.tensors, lora.metadata, trainer);
  notes.write(`\nSaved as ${options.save}.\n`);
  if (!isComplete) {
    notes.write(continuation(options));
    return;
  }
  const after = await trainer.heldOutLoss(corpus.heldOut);
  const before = await trainer.heldOutLoss(corpus.heldOut, false);
  notes.write(
    `Loss of text that was held out, in nats per token: ${after.toFixed(3)}; without the adapter: ${before.toFixed(3)}.\n`,
  );

  const weights = weightsOf(backend, parameters);
  const adaptable = new AdaptableWeights(backend, weights);
  await using file = await FileSource.open(options.save);
  const adapter = await readAdapter(backend, file, weights);
  const room = Math.min(shape.length, tokenizer.encode(options.prompt).length + options.tokens);
  const transformer = new Transformer(backend, shape, adaptable, room);
  for (const used of [undefined, adapter]) {
    adaptable.adapter = used;
    notes.write(used === undefined ? "\nWithout the adapter:\n" : "\nWith it:\n");
    const { prompt } = options;
    await writeText({ backend, transformer, tokenizer, prompt, options, outputs, signal });
  }
  const files = { model: options.model, tokenizer: options.tokenizer, adapter: options.save };
  notes.write(`\nTo use it: ${callWith(files)}\n`);
  transformer.free();
  adapter.free();
  disposeParameters(parameters);
}

/** Begins a training, or goes on with one that was interrupted. */
async function trainingFor(
  backend: SwitchableBackend,
  shape: Shape,
  parameters: Parameters,
  options: Options,
): Promise<{ readonly lora: LoraParameters; readonly trainer: Trainer }> {
  const begin = (sizes: AdapterSizes, settings: TrainingOptions) => {
    const lora = new LoraParameters(backend, shape, sizes, new Random(settings.seed));
    const trained = [...lora.tensors.values()];
    return { lora, trainer: new Trainer(backend, shape, parameters, trained, settings, lora.adaptation) };
  };
  const { seed, steps, resume, lora: rank } = options;
  if (resume === undefined)
    return begin({ rank, scale }, { seed, steps, batch, length: Math.min(length, shape.length), rate });
  return named(resume, async () => {
    using saved = await SavedTraining.read(backend, resume);
    const sizes = adapterSizesFrom(saved.metadata.get(ADAPTER_KEY));
    if (rank > 0 && rank !== sizes.rank)
      throw new FileError(`It has an adapter of rank ${sizes.rank}, and --lora is ${rank}.`);
    const training = begin(sizes, saved.options);
    training.lora.assign(saved.take);
    saved.restore(training.trainer);
    return training;
  });
}

function numbersOf(tensors: ReadonlyMap<string, Tensor>): number {
  return [...tensors.values()].reduce((sum, { size }) => sum + size, 0);
}

/** The tokens of a text, line by line, as joining pieces takes more than proportionally long. */
function tokensOf(tokenizer: Tokenizer, text: Uint8Array): Int32Array {
  const lines = new TextDecoder().decode(text).split(/(?<=\n)/);
  return Int32Array.from(lines.flatMap((line) => tokenizer.encode(line).slice(1)));
}
