import { writeFile } from "node:fs/promises";
import { type ComputeBackend, SwitchableBackend } from "@backplane/core";
import { ProgressBar } from "@backplane/example-digits/progress.js";
import { AdaptableWeights, readAdapter } from "./adapter.js";
import { registry } from "./backends.js";
import type { Checkpoint } from "./checkpoint/checkpoint.js";
import { checkWritable, FileSource, onDisk } from "./checkpoint/disk.js";
import { FileError, named } from "./checkpoint/file.js";
import { readCheckpoint } from "./checkpoint/formats.js";
import { type LoadedWeights, loadWeights, weightBytes } from "./checkpoint/load.js";
import { Transformer } from "./model.js";
import type { Options } from "./options.js";
import { profilerFor } from "./profile.js";
import { readLlama2cTokenizer } from "./tokenizer/llama2c.js";
import type { Tokenizer } from "./tokenizer/tokenizer.js";
import { megabytes, type Outputs, writeText } from "./writing.js";

/** Writes on after the prompt with a model from a file, starting on a backend. */
export async function tellStory(
  options: Options & { readonly model: string },
  start: string,
  outputs: Outputs,
  signal: AbortSignal,
): Promise<void> {
  const { notes } = outputs;
  if (options.profile !== undefined) await checkWritable(options.profile);
  await using model = await openModel(options);
  const { checkpoint, tokenizer } = model;
  const { shape } = checkpoint;
  const prompt = tokenizer.encode(options.prompt);
  if (prompt.length > shape.length)
    throw new FileError(`The prompt has ${prompt.length} tokens, and the model takes ${shape.length}.`);
  await using switchable = new SwitchableBackend(registry, start);
  await switchable.init();
  const profiler = options.profile === undefined ? undefined : profilerFor(switchable);
  const { backend } = profiler ?? { backend: switchable };
  const { dtype } = options;

  const loaded = await loadShown(backend, model, options, outputs, signal);
  const room = Math.min(shape.length, prompt.length + options.tokens);
  const weights = new AdaptableWeights(backend, loaded.weights);
  const { adapter: path } = options;
  if (path !== undefined)
    weights.adapter = await named(path, async () => {
      await using adapterFile = await FileSource.open(path);
      return await readAdapter(backend, adapterFile, loaded.weights);
    });
  const transformer = new Transformer(backend, shape, weights, room, dtype);
  const writing = { backend, transformer, tokenizer, prompt: options.prompt, options, outputs, signal };
  if (profiler === undefined) await writeText(writing);
  else {
    const { text, trace } = await profiler.measure((watch) => writeText({ ...writing, watch }));
    await onDisk(() => writeFile(options.profile!, JSON.stringify(trace)));
    notes.write(
      `\n${text}The time line is in ${options.profile}, for chrome://tracing or ui.perfetto.dev.\n`,
    );
  }
  const { cacheBytes } = transformer;
  notes.write(`The keys and values of ${room} tokens take ${megabytes(cacheBytes)}.\n`);
  transformer.free();
  weights.adapter?.free();
  loaded.scope.dispose();
}

/** Loads the weights of a model, and shows how far that is. */
export function loadShown(
  backend: ComputeBackend,
  { file, checkpoint }: OpenModel,
  { model, dtype, mayRoundInputs }: Options & { readonly model: string },
  { notes }: Outputs,
  signal: AbortSignal,
): Promise<LoadedWeights> {
  const bar = new ProgressBar(notes, "load");
  const size = `${megabytes(weightBytes(checkpoint))} to ${backend.capabilities.device.name}`;
  const progress = (fraction: number): void => {
    bar.show(fraction, size);
    signal.throwIfAborted();
  };
  return named(model, () => loadWeights(backend, file, checkpoint, dtype, { progress, mayRoundInputs }));
}

/** A model file that is open. */
export interface OpenModel extends AsyncDisposable {
  readonly file: FileSource;
  readonly checkpoint: Checkpoint;
  readonly tokenizer: Tokenizer;
}

/** Opens the model file and the tokenizer of some options. Throws a FileError that names the file. */
export async function openModel(options: Options & { readonly model: string }): Promise<OpenModel> {
  const file = await named(options.model, () => FileSource.open(options.model));
  try {
    const checkpoint = await named(options.model, () => readCheckpoint(file));
    const tokenizer = await tokenizerFor(options, checkpoint);
    return { file, checkpoint, tokenizer, [Symbol.asyncDispose]: () => file[Symbol.asyncDispose]() };
  } catch (error) {
    await file[Symbol.asyncDispose]();
    throw error;
  }
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
