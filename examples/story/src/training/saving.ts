import { renameSync, writeFileSync } from "node:fs";
import type { ComputeBackend } from "@backplane/core";
import { type Tensor, tensor } from "@backplane/tensor";
import { type ByteSource, FileError } from "../checkpoint/file.js";
import { readArray, readSafetensorsHeader, safetensorsFile } from "../checkpoint/safetensors.js";
import { SHAPE_KEY, trainedShape } from "../checkpoint/trained.js";
import type { Shape } from "../shape.js";
import { named, type Parameters, parametersFrom, shapesOf } from "./parameters.js";
import type { Trainer, TrainingOptions } from "./trainer.js";

/** Keys of the metadata: how the model is trained, and how far. */
const OPTIONS_KEY = "training";
const STEPS_KEY = "steps";

/** A training that was interrupted. */
export interface Interrupted {
  readonly shape: Shape;
  readonly options: TrainingOptions;
  readonly parameters: Parameters;
  /** Gives a trainer of these parameters what its optimizer had. */
  readonly restore: (trainer: Trainer) => void;
}

/** Writes a file from which the training goes on as if it had never stopped, and which is a model file too. */
export async function saveTraining(
  path: string,
  shape: Shape,
  parameters: Parameters,
  { optimizer, options }: Trainer,
): Promise<void> {
  const states = [...optimizer.states()].map(([name, state]) => [stateName(name), state] as const);
  await saveTensors(path, new Map([...named(parameters), ...states]), {
    [SHAPE_KEY]: JSON.stringify(shape),
    [OPTIONS_KEY]: JSON.stringify(options),
    [STEPS_KEY]: String(optimizer.steps),
  });
}

/** Reads what `saveTraining` wrote. */
export async function readTraining(backend: ComputeBackend, file: ByteSource): Promise<Interrupted> {
  const header = await readSafetensorsHeader(file);
  const shape = trainedShape(header);
  const options = header.metadata[OPTIONS_KEY];
  if (options === undefined) throw new FileError("It has a model, but not how it was trained.");
  const values = new Map<string, Float32Array>();
  for (const [name, extents] of shapesOf(shape))
    values.set(name, await readArray(file, header, name, extents));
  const states = new Map<string, Float32Array>();
  for (const [name, { shape: extents }] of header.arrays)
    if (name.startsWith(stateName(""))) states.set(name, await readArray(file, header, name, extents));
  const parameters = parametersFrom(backend, shape, (name) => values.get(name)!);
  const restore = ({ optimizer }: Trainer): void => {
    optimizer.steps = Number(header.metadata[STEPS_KEY]);
    for (const [name, state] of optimizer.states()) {
      const saved = states.get(stateName(name));
      if (saved === undefined) throw new FileError(`It has no array ${stateName(name)}.`);
      using given = tensor(backend, saved, { shape: state.shape });
      state.assign(given);
    }
  };
  return { shape, options: JSON.parse(options) as TrainingOptions, parameters, restore };
}

/** Writes tensors by name, and leaves an older file as it is until the new one is complete. */
export async function saveTensors(
  path: string,
  tensors: ReadonlyMap<string, Tensor>,
  metadata: Readonly<Record<string, string>>,
): Promise<void> {
  const arrays = new Map<string, { shape: readonly number[]; values: Float32Array }>();
  for (const [name, tensor] of tensors)
    arrays.set(name, { shape: tensor.shape, values: (await tensor.data()) as Float32Array });
  const unfinished = `${path}.unfinished`;
  writeFileSync(unfinished, safetensorsFile(arrays, metadata));
  renameSync(unfinished, path);
}

function stateName(name: string): string {
  return `optimizer.${name}`;
}
