import { setImmediate } from "node:timers/promises";
import { SwitchableBackend } from "@backplane/core";
import { ProgressBar } from "@backplane/example-digits/progress.js";
import { parametersOf } from "@backplane/tensor";
import { registry } from "../backends.js";
import { checkWritable } from "../checkpoint/disk.js";
import { named } from "../checkpoint/file.js";
import { SHAPE_KEY, shapeFrom } from "../checkpoint/trained.js";
import { callWith } from "../command-line.js";
import { Transformer } from "../model.js";
import type { Options } from "../options.js";
import { Random } from "../random.js";
import { Sampler } from "../sampler.js";
import { ropeFrequencies, type Shape } from "../shape.js";
import { ByteTokenizer } from "../tokenizer/bytes.js";
import { TextJoiner } from "../tokenizer/tokenizer.js";
import { Writer } from "../writer.js";
import { type Outputs, writeText } from "../writing.js";
import { bigramLoss } from "./bigram.js";
import { type Corpus, corpusFor } from "./corpus.js";
import { initialParameters, type Parameters, parametersFrom, weightsOf } from "./parameters.js";
import { SavedTraining, saveTraining } from "./saving.js";
import { Trainer, type TrainingOptions } from "./trainer.js";

const HEADS = 4;
const HEAD_SIZE = 16;

const batch = 16;
const length = 64;
const rate = 0.008;

/**
 * Small enough for two cores to train within minutes. In long texts a token sees no more than in training: the model knows
 * no longer distances.
 */
const shape: Shape = {
  ...{ size: HEADS * HEAD_SIZE, hidden: 176, layers: 3, heads: HEADS, kvHeads: HEADS, headSize: HEAD_SIZE },
  ...{
    vocabulary: 256,
    length: 4096,
    window: length,
    epsilon: 1e-5,
    frequencies: ropeFrequencies(HEAD_SIZE, 10_000),
  },
};

/** Steps from one reading of the loss, which waits for the device, to the next. */
const STEPS_PER_READING = 10;
/** Samples in a whole training, and their bytes. */
const SAMPLES = 4;
const SAMPLE_BYTES = 70;
/** Turns of the backends in the text at the end. */
const TURNS = 4;

export interface TrainingProgram {
  readonly options: Options;
  readonly start: string;
  /** Whether there is another backend to swap to. */
  readonly swaps: boolean;
  readonly outputs: Outputs;
  readonly signal: AbortSignal;
}

/** Trains a model on text, shows what it has learned, and lets it write while the backend is swapped. */
export async function trainModel({ options, start, swaps, outputs, signal }: TrainingProgram): Promise<void> {
  const { notes } = outputs;
  await checkWritable(options.save);
  const corpus = corpusFor(options.text, length, (text) => Int32Array.from(text));
  await using backend = new SwitchableBackend(registry, start);
  await backend.init();
  const training = await trainingFor(backend, options);
  const { trainer, parameters } = training;
  const count = [...parametersOf(parameters).values()].reduce((sum, { size }) => sum + size, 0);
  notes.write(
    `${grouped(count)} parameters learn from ${grouped(corpus.training.length)} bytes on ${backend.capabilities.device.name}.\n`,
  );
  const isComplete = await trainOn(trainer, corpus, outputs, signal, () =>
    sample(backend, training.shape, parameters, options),
  );
  const metadata = { [SHAPE_KEY]: JSON.stringify(training.shape) };
  await saveTraining(options.save, parametersOf(parameters), metadata, trainer);
  notes.write(`\nSaved as ${options.save}.\n`);
  if (!isComplete) {
    notes.write(continuation(options));
    return;
  }
  const loss = await trainer.heldOutLoss(corpus.heldOut);
  const bigram = bigramLoss(corpus);
  notes.write(
    `Loss of text that was held out, in nats per byte: ${loss.toFixed(3)}; of a bigram model: ${bigram.toFixed(3)}.\n\n`,
  );
  const tokenizer = new ByteTokenizer();
  const { prompt } = options;
  const room = tokenizer.encode(prompt).length + options.tokens;
  const transformer = new Transformer(backend, training.shape, weightsOf(backend, parameters), room);
  const writing = { ...options, swap: swaps ? Math.ceil(options.tokens / TURNS) : 0 };
  await writeText({ backend, transformer, tokenizer, prompt, options: writing, outputs, signal });
  notes.write(`To read more of it: ${callWith({ model: options.save })}\n`);
}

interface Training {
  readonly shape: Shape;
  readonly parameters: Parameters;
  readonly trainer: Trainer;
}

async function trainingFor(backend: SwitchableBackend, options: Options): Promise<Training> {
  const { resume, seed, steps } = options;
  if (resume === undefined) {
    const given: TrainingOptions = { seed, steps, batch, length, rate };
    const parameters = initialParameters(backend, shape, new Random(seed));
    return { shape, parameters, trainer: trainerOf(backend, shape, parameters, given) };
  }
  return named(resume, async () => {
    using saved = await SavedTraining.read(backend, resume);
    const savedShape = shapeFrom(saved.metadata.get(SHAPE_KEY));
    const parameters = parametersFrom(savedShape, saved.take);
    const trainer = trainerOf(backend, savedShape, parameters, saved.options);
    saved.restore(trainer);
    return { shape: savedShape, parameters, trainer };
  });
}

function trainerOf(
  backend: SwitchableBackend,
  shape: Shape,
  parameters: Parameters,
  options: TrainingOptions,
) {
  return new Trainer(backend, shape, parameters, [...parametersOf(parameters).values()], options);
}

/**
 * Does the steps that are left, and returns whether all were done.
 *
 * @param sample writes something with what was learned so far
 */
export async function trainOn(
  trainer: Trainer,
  corpus: Corpus,
  { notes }: Outputs,
  signal: AbortSignal,
  sample?: () => Promise<string>,
): Promise<boolean> {
  const { steps, batch, length } = trainer.options;
  const { optimizer } = trainer;
  const bar = new ProgressBar(notes, "train");
  const perSample = Math.ceil(steps / SAMPLES);
  let [began, tokens] = [performance.now(), 0];
  while (optimizer.steps < steps) {
    using loss = trainer.step(corpus.training);
    tokens += batch * length;
    const done = optimizer.steps;
    if (done % STEPS_PER_READING !== 0 && done !== steps) continue;
    const value = await loss.item();
    const speed = tokens / ((performance.now() - began) / 1000);
    bar.show(done / steps, `loss ${value.toFixed(3)}  ${grouped(speed)} tokens/s`);
    // Lets signals have their turn.
    await setImmediate();
    if (signal.aborted) return false;
    if (sample === undefined || done % perSample >= STEPS_PER_READING || done === steps) continue;
    notes.write(`\n  after ${done} steps: ${JSON.stringify(await sample())}\n`);
    [began, tokens] = [performance.now(), 0];
  }
  return true;
}

async function sample(
  backend: SwitchableBackend,
  shape: Shape,
  parameters: Parameters,
  options: Options,
): Promise<string> {
  const tokenizer = new ByteTokenizer();
  const prompt = tokenizer.encode(options.prompt);
  const room = prompt.length + SAMPLE_BYTES;
  const transformer = new Transformer(backend, shape, weightsOf(backend, parameters), room);
  const sampler = new Sampler(backend, shape.vocabulary, options);
  const writer = new Writer(backend, transformer, sampler);
  const joiner = new TextJoiner(tokenizer, true);
  let text = "";
  for await (const token of writer.write(prompt, SAMPLE_BYTES, tokenizer.stops)) text += joiner.add(token);
  for (const part of [writer, sampler, transformer]) part.free();
  return text;
}

/** Says how to go on with a training that was interrupted, to the same bits: on the backend that was asked for. */
export function continuation({ model, tokenizer, text, save, backend }: Options): string {
  const chosen = backend === "auto" ? undefined : backend;
  return `To go on: ${callWith({ model, tokenizer, text, resume: save, save, backend: chosen })}\n`;
}

/** A whole number with commas. */
export function grouped(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
