import { BackendError, type ComputeBackend } from "@backplane/core";
import type { Checkpoint, Tensor } from "@backplane/tensor";
import { load, save } from "@backplane/tensor/node";
import { onDisk } from "../checkpoint/disk.js";
import { FileError } from "../checkpoint/file.js";
import { faultOfCounts, jsonFrom } from "../checkpoint/json.js";
import { arrayOf } from "../checkpoint/safetensors.js";
import type { Trainer, TrainingOptions } from "./trainer.js";

/** Keys of the metadata: how something is trained, and how far. */
const OPTIONS_KEY = "training";
const STEPS_KEY = "steps";

/** Stands before the names of the optimizer's states. */
const STATES = "optimizer.";

/** Writes a file of what is trained, from which the training goes on as if it had never stopped. */
export async function saveTraining(
  path: string,
  trained: ReadonlyMap<string, Tensor>,
  metadata: Readonly<Record<string, string>>,
  { optimizer, options }: Trainer,
): Promise<void> {
  const states = [...optimizer.states()].map(([name, state]) => [STATES + name, state] as const);
  const all = new Map([...trained, ...states]);
  const progress = { [OPTIONS_KEY]: JSON.stringify(options), [STEPS_KEY]: String(optimizer.steps) };
  await onDisk(() => save(path, all, { metadata: { ...metadata, ...progress } }));
}

/** A training that was interrupted. Disposing of it frees the tensors that nobody has taken. */
export class SavedTraining implements Disposable {
  readonly metadata: ReadonlyMap<string, string>;
  readonly options: TrainingOptions;
  readonly #steps: number;
  readonly #tensors: Map<string, Tensor>;

  private constructor({ tensors, metadata }: Checkpoint) {
    this.metadata = metadata;
    this.options = optionsFrom(metadata.get(OPTIONS_KEY));
    this.#steps = stepsFrom(metadata.get(STEPS_KEY), this.options);
    this.#tensors = tensors;
  }

  /** Reads what `saveTraining` wrote. Throws a FileError if the file is another one, or broken. */
  static async read(backend: ComputeBackend, path: string): Promise<SavedTraining> {
    const file = await loaded(backend, path);
    try {
      return new SavedTraining(file);
    } catch (error) {
      for (const tensor of file.tensors.values()) tensor.dispose();
      throw error;
    }
  }

  /** Takes out a tensor. Throws a FileError if it is missing or has another shape. */
  readonly take = (name: string, shape: readonly number[]): Tensor => {
    const tensor = arrayOf(this.#tensors, name, shape);
    this.#tensors.delete(name);
    return tensor;
  };

  /** Gives a trainer of these tensors what its optimizer had. Once. */
  restore({ optimizer }: Trainer): void {
    optimizer.steps = this.#steps;
    for (const [name, state] of optimizer.states()) {
      using saved = this.take(STATES + name, state.shape);
      state.assign(saved);
    }
  }

  [Symbol.dispose](): void {
    for (const tensor of this.#tensors.values()) tensor.dispose();
    this.#tensors.clear();
  }
}

function optionsFrom(text: string | undefined): TrainingOptions {
  if (text === undefined) throw new FileError("It does not say how it was trained.");
  return jsonFrom<TrainingOptions>(text, (options) => {
    const { seed, rate } = options;
    if (!Number.isSafeInteger(seed) || seed < 1) return `seed is ${JSON.stringify(seed)}`;
    if (!Number.isFinite(rate) || rate <= 0) return `rate is ${JSON.stringify(rate)}`;
    return faultOfCounts(options, ["steps", "batch", "length"]);
  });
}

function stepsFrom(text = "", { steps }: TrainingOptions): number {
  const done = Number(text);
  if (/^\d+$/.test(text) && done <= steps) return done;
  throw new FileError(`It has done ${JSON.stringify(text)} steps of ${steps}.`);
}

async function loaded(backend: ComputeBackend, path: string): Promise<Checkpoint> {
  try {
    return await load(backend, path);
  } catch (error) {
    const isOfFile = !(error instanceof BackendError) || error.operation === "safetensors";
    throw isOfFile ? new FileError((error as Error).message) : error;
  }
}
