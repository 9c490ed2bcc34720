import { type ByteSource, FileError } from "./file.js";
import { isObject, jsonFrom } from "./json.js";

/** An array of f32 in a file. */
export interface StoredArray {
  readonly shape: readonly number[];
  /** Of its first byte in the file. */
  readonly offset: number;
}

export interface SafetensorsHeader {
  readonly metadata: Readonly<Record<string, string>>;
  readonly arrays: ReadonlyMap<string, StoredArray>;
}

/** Bytes of the length of the header, in front of it. */
const LENGTH_BYTES = 8;

interface Entry {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data_offsets: readonly [number, number];
}

/** Whether a file may be of this format by its first bytes: a length below 2^32, and a brace. */
export function looksLikeSafetensors(start: Uint8Array): boolean {
  return start[LENGTH_BYTES] === 0x7b && start.subarray(4, LENGTH_BYTES).every((byte) => byte === 0);
}

/** Reads the header of a file of the format safetensors (https://huggingface.co/docs/safetensors) with arrays of F32. */
export async function readSafetensorsHeader(file: ByteSource): Promise<SafetensorsHeader> {
  const start = await file.read(0, LENGTH_BYTES);
  const length = Number(new DataView(start.buffer).getBigUint64(0, true));
  const data = LENGTH_BYTES + length;
  if (data > file.size)
    throw new FileError(`It is cut off: its header has ${length} bytes, and the file ${file.size}.`);
  const { __metadata__: metadata = {}, ...entries } = headerFrom(await file.read(LENGTH_BYTES, length));
  const arrays = new Map<string, StoredArray>();
  for (const [name, { dtype, shape, data_offsets: place }] of Object.entries(entries)) {
    if (dtype !== "F32") throw new FileError(`${name} is of type ${dtype}; this program reads F32.`);
    const [from, to] = place;
    const bytes = 4 * shape.reduce((product, extent) => product * extent, 1);
    if (to - from !== bytes) throw new FileError(`${name} has ${to - from} bytes, and its shape ${bytes}.`);
    if (data + to > file.size)
      throw new FileError(
        `It is cut off: ${name} should end after ${data + to} bytes, and the file after ${file.size}.`,
      );
    arrays.set(name, { shape, offset: data + from });
  }
  return { metadata, arrays };
}

type Header = Record<string, Entry> & { __metadata__?: Record<string, string> };

function headerFrom(bytes: Uint8Array): Header {
  return jsonFrom<Header>(new TextDecoder().decode(bytes), ({ __metadata__: metadata = {}, ...entries }) => {
    if (!isObject(metadata) || !Object.values(metadata).every((value) => typeof value === "string"))
      return "its metadata are no texts";
    const broken = Object.entries(entries).find(([, entry]) => !isEntry(entry));
    return broken && `${broken[0]} is described by ${JSON.stringify(broken[1])}`;
  });
}

function isEntry(entry: unknown): boolean {
  if (!isObject(entry)) return false;
  const { dtype, shape, data_offsets: place } = entry as Partial<Entry>;
  if (typeof dtype !== "string" || !areSizes(shape) || !areSizes(place)) return false;
  return place.length === 2 && place[0]! <= place[1]!;
}

function areSizes(values: unknown): values is number[] {
  return Array.isArray(values) && values.every((value) => Number.isSafeInteger(value) && value >= 0);
}

/** The values of an array. Throws a FileError if it is missing or has another shape. */
export async function readArray(
  file: ByteSource,
  { arrays }: SafetensorsHeader,
  name: string,
  shape: readonly number[],
): Promise<Float32Array<ArrayBuffer>> {
  const { offset } = arrayOf(arrays, name, shape);
  const count = shape.reduce((product, extent) => product * extent, 1);
  return new Float32Array((await file.read(offset, 4 * count)).buffer);
}

/** The array of a name. Throws a FileError if it is missing or has another shape. */
export function arrayOf<Found extends { readonly shape: readonly number[] }>(
  arrays: ReadonlyMap<string, Found>,
  name: string,
  shape: readonly number[],
): Found {
  const array = arrays.get(name);
  if (array === undefined) throw new FileError(`It has no array ${name}.`);
  if (array.shape.join() !== shape.join())
    throw new FileError(`${name} has shape [${array.shape.join(", ")}]; needed: [${shape.join(", ")}].`);
  return array;
}
