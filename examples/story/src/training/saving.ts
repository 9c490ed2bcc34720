import { BackendError, type ComputeBackend } from "@backplane/core";
import { parametersOf, type Tensor } from "@backplane/tensor";
import { load, save } from "@backplane/tensor/node";
import { FileError } from "../checkpoint/file.js";
import { SHAPE_KEY, shapeFrom } from "../checkpoint/trained.js";
import type { Shape } from "../shape.js";
import { type Parameters, parametersFrom } from "./parameters.js";
import type { Trainer, TrainingOptions } from "./trainer.js";

/** Keys of the metadata: how the model is trained, and how far. */
const OPTIONS_KEY = "training";
const STEPS_KEY = "steps";

/** Stands before the names of the optimizer's states. */
const STATES = "optimizer.";

/** A training that was interrupted. */
export interface Interrupted {
  readonly shape: Shape;
  readonly options: TrainingOptions;
  readonly parameters: Parameters;
  /** Gives a trainer of these parameters what its optimizer had. Once. */
  readonly restore: (trainer: Trainer) => void;
}

/** Writes a file from which the training goes on as if it had never stopped, and which is a model file too. */
export async function saveTraining(
  path: string,
  shape: Shape,
  parameters: Parameters,
  { optimizer, options }: Trainer,
): Promise<void> {
  const states = [...optimizer.states()].map(([name, state]) => [STATES + name, state] as const);
  const metadata = {
    [SHAPE_KEY]: JSON.stringify(shape),
    [OPTIONS_KEY]: JSON.stringify(options),
    [STEPS_KEY]: String(optimizer.steps),
  };
  await save(path, new Map([...parametersOf(parameters), ...states]), { metadata });
}

/** Reads what `saveTraining` wrote. Throws a FileError if the file is another one, or broken. */
export async function readTraining(backend: ComputeBackend, path: string): Promise<Interrupted> {
  const { tensors, metadata } = await loaded(backend, path);
  try {
    const shape = shapeFrom(metadata.get(SHAPE_KEY));
    const options = metadata.get(OPTIONS_KEY);
    if (options === undefined) throw new FileError("It has a model, but not how it was trained.");
    const parameters = parametersFrom(shape, (name, extents) => taken(tensors, name, extents));
    const restore = ({ optimizer }: Trainer): void => {
      optimizer.steps = Number(metadata.get(STEPS_KEY));
      for (const [name, state] of optimizer.states()) {
        using saved = taken(tensors, STATES + name, state.shape);
        state.assign(saved);
      }
    };
    return { shape, options: JSON.parse(options) as TrainingOptions, parameters, restore };
  } catch (error) {
    for (const tensor of tensors.values()) tensor.dispose();
    throw error;
  }
}

/** Takes a tensor out of those of a file. Throws a FileError if it is missing or has another shape. */
function taken(tensors: Map<string, Tensor>, name: string, shape: readonly number[]): Tensor {
  const tensor = tensors.get(name);
  if (tensor === undefined) throw new FileError(`It has no array ${name}.`);
  if (tensor.shape.join() !== shape.join())
    throw new FileError(`${name} has shape [${tensor.shape.join(", ")}]; needed: [${shape.join(", ")}].`);
  tensors.delete(name);
  return tensor;
}

async function loaded(backend: ComputeBackend, path: string) {
  try {
    return await load(backend, path);
  } catch (error) {
    const isOfFile = !(error instanceof BackendError) || error.operation === "safetensors";
    throw isOfFile ? new FileError((error as Error).message) : error;
  }
}
