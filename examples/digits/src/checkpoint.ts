import { BackendError, type ComputeBackend } from "@backplane/core";
import {
  type Checkpoint,
  type Layer,
  loadParameters,
  type Optimizer,
  type Progress,
  parametersOf,
  type Tensor,
} from "@backplane/tensor";
import { load, save } from "@backplane/tensor/node";
import { onDisk } from "./disk.js";
import { FileError } from "./file-error.js";
import { type Options, UsageError } from "./options.js";

/** Options on which the steps depend: a checkpoint goes on with the same ones only. */
const decisive = ["model", "seed", "epochs", "batch"] as const;

const statePrefix = "optimizer.";

/** Saves all that the next steps depend on. */
export async function saveCheckpoint(
  path: string,
  model: Layer,
  optimizer: Optimizer,
  options: Options,
  onProgress: Progress,
): Promise<void> {
  const states = Array.from(optimizer.states(), ([name, state]): [string, Tensor] => [
    statePrefix + name,
    state,
  ]);
  const settings = decisive.map((name): [string, string] => [name, String(options[name])]);
  const metadata = new Map([...settings, ["steps", String(optimizer.steps)]]);
  await onDisk(() => save(path, new Map([...parametersOf(model), ...states]), { metadata, onProgress }));
}

/**
 * Puts model and optimizer where they were when the checkpoint was saved. Throws a FileError if the file is missing,
 * broken or another one.
 */
export async function loadCheckpoint(
  path: string,
  backend: ComputeBackend,
  model: Layer,
  optimizer: Optimizer,
  options: Options,
  onProgress: Progress,
): Promise<void> {
  const { tensors, metadata } = await read(backend, path, onProgress);
  try {
    const steps = Number(metadata.get("steps"));
    if (!Number.isSafeInteger(steps) || !decisive.every((name) => metadata.has(name)))
      throw new FileError(`${path}: It is a safetensors file, but none that this program has saved.`);
    for (const name of decisive)
      if (metadata.get(name) !== String(options[name]))
        throw new UsageError(
          `--${name} is "${options[name]}"; allowed with this checkpoint: ${metadata.get(name)}`,
        );
    const isState = ([name]: readonly [string, Tensor]): boolean => name.startsWith(statePrefix);
    loadParameters(model, new Map([...tensors].filter((entry) => !isState(entry))));
    for (const [name, state] of optimizer.states()) state.assign(tensors.get(statePrefix + name)!);
    optimizer.steps = steps;
  } finally {
    for (const tensor of tensors.values()) tensor.dispose();
  }
}

async function read(backend: ComputeBackend, path: string, onProgress: Progress): Promise<Checkpoint> {
  try {
    return await onDisk(() => load(backend, path, { onProgress }));
  } catch (error) {
    const isOfFile = error instanceof BackendError && error.operation === "safetensors";
    throw isOfFile ? new FileError(`${path}: ${error.message}`) : error;
  }
}
