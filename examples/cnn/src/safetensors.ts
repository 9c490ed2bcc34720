/** An array of a model file: numbers in row-major order. */
export interface Tensor {
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

/** A file that is not what it should be; the message is for the person who named it. */
export class FileError extends Error {}

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** Bytes of the length of the header, in front of it. */
const LENGTH_BYTES = 8;

/**
 * Reads the arrays of f32 in a file of the format safetensors: eight bytes with the length of a header in JSON, the
 * header, which names each array with its type, shape and place, and the arrays.
 * https://huggingface.co/docs/safetensors
 */
export function readSafetensors(file: Uint8Array): ReadonlyMap<string, Tensor> {
  if (file.length < LENGTH_BYTES) throw new FileError(`It has ${file.length} bytes; needed: at least 8.`);
  const length = Number(new DataView(file.buffer, file.byteOffset, LENGTH_BYTES).getBigUint64(0, true));
  const start = LENGTH_BYTES + length;
  if (start > file.length)
    throw new FileError(`Its header should have ${length} bytes, but it ends after ${file.length - 8}.`);
  const { __metadata__: _, ...entries } = headerOf(file.subarray(LENGTH_BYTES, start));
  return new Map(
    Object.entries(entries).map(([name, entry]) => [name, tensorOf(name, entry, file.subarray(start))]),
  );
}

function headerOf(bytes: Uint8Array): Readonly<Record<string, Entry>> {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw new FileError(`Its header is not JSON: ${(error as Error).message}`);
  }
}

function tensorOf(name: string, entry: Entry, data: Uint8Array): Tensor {
  const { dtype, shape, data_offsets: place } = entry;
  if (!isExtents(shape) || !isExtents(place) || place.length !== 2)
    throw new FileError(`${name} has no shape or no place in the file.`);
  if (dtype !== "F32") throw new FileError(`${name} is of type ${dtype}; this program reads F32.`);
  const [from, to] = place;
  const count = shape.reduce((product, extent) => product * extent, 1);
  if (to - from !== 4 * count || to > data.length)
    throw new FileError(
      `${name} has shape [${shape.join(", ")}], so ${4 * count} bytes, but they are at ${from} to ${to} of ${data.length}.`,
    );
  // A copy: arrays may begin at any byte. `slice` of a Buffer would make none.
  return { shape, values: new Float32Array(new Uint8Array(data.subarray(from, to)).buffer) };
}

function isExtents(value: unknown): value is readonly number[] {
  return Array.isArray(value) && value.every((extent) => Number.isSafeInteger(extent) && extent >= 0);
}
