import { parseSafetensors } from "@backplane/tensor";

/** A file that is not what it should be; the message is for the person who named it. */
export class FileError extends Error {}

/** An array of a model file: numbers in row-major order. */
export interface ModelArray {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** Reads the arrays of a file of the format safetensors. Throws a FileError if they are not of f32. */
export function readModel(file: Uint8Array): ReadonlyMap<string, ModelArray> {
  const model = new Map<string, ModelArray>();
  for (const [name, { dtype, shape, bytes }] of parseSafetensors(file).tensors) {
    if (dtype !== "f32") throw new FileError(`${name} is of type ${dtype}; this program reads f32.`);
    // A copy: arrays may begin at any byte.
    model.set(name, { shape, values: new Float32Array(new Uint8Array(bytes).buffer) });
  }
  return model;
}
