import { BackendError, type DType, dtypeBytes } from "@backplane/core";
import { mostAxes, type Shape, sizeOf } from "../view/shape.js";

/*
 * The file format "safetensors" of Hugging Face: 8 bytes with the length of the header, little-endian; the header, JSON
 * that names each tensor, its type, shape and place; then the bytes of the tensors, one after the other.
 */

const namesOfTypes: Readonly<Record<DType, string>> = {
  ...{ f32: "F32", f16: "F16", bf16: "BF16", i32: "I32", u32: "U32", u8: "U8" },
};

const typesByName: ReadonlyMap<string, DType> = new Map(
  Object.entries(namesOfTypes).map(([dtype, name]) => [name, dtype as DType]),
);

/** Where a tensor is in a file. */
export interface StoredTensor {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: Shape;
  /** Of its first byte, behind the header. */
  readonly start: number;
  readonly bytes: number;
}

/** What the header of a file says. */
export interface Header {
  readonly tensors: readonly StoredTensor[];
  /** Texts of the writer. */
  readonly metadata: ReadonlyMap<string, string>;
}

/** Bytes that hold the length of the header. */
export const lengthBytes = 8;

/** Longer headers are refused, before anybody reserves memory for one. */
const longestHeader = 100_000_000;

const metadataName = "__metadata__";

/** Returns the bytes of a file before the tensors, which follow in their order. */
export function encodeHeader(
  tensors: Iterable<readonly [name: string, tensor: { readonly dtype: DType; readonly shape: Shape }]>,
  metadata: ReadonlyMap<string, string>,
): Uint8Array<ArrayBuffer> {
  // Without a prototype, so that "__proto__" is a name like any other.
  const header = Object.create(null) as Record<string, unknown>;
  if (metadata.size > 0) header[metadataName] = Object.fromEntries(metadata);
  let start = 0;
  for (const [name, { dtype, shape }] of tensors) {
    if (name === metadataName) broken(`a tensor has the name ${metadataName}, which is that of the metadata`);
    const end = start + sizeOf(shape) * dtypeBytes[dtype];
    header[name] = { dtype: namesOfTypes[dtype], shape, data_offsets: [start, end] };
    start = end;
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  // Spaces at the end, so that tensors begin at multiples of 8.
  const length = Math.ceil(text.length / 8) * 8;
  const bytes = new Uint8Array(lengthBytes + length).fill(0x20);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(length), true);
  bytes.set(text, lengthBytes);
  return bytes;
}

/** Returns the length of the header, from the first 8 bytes of a file of so many bytes. */
export function headerLength(first: Uint8Array, fileBytes: number): number {
  if (first.length < lengthBytes) broken(`it has ${first.length} bytes; a file has at least ${lengthBytes}`);
  const view = new DataView(first.buffer, first.byteOffset, lengthBytes);
  const length = view.getBigUint64(0, true);
  if (length > BigInt(longestHeader) || Number(length) > fileBytes - lengthBytes)
    broken(`its header is said to have ${length} bytes, of ${fileBytes} in the file`);
  return Number(length);
}

/** Reads a header, and checks that the tensors fill the bytes behind it, one after the other. */
export function decodeHeader(bytes: Uint8Array, dataBytes: number): Header {
  const fields = parsed(bytes);
  const metadata = new Map<string, string>();
  const tensors: StoredTensor[] = [];
  for (const [name, field] of Object.entries(fields)) {
    if (!isObject(field)) broken(`${JSON.stringify(name)} is no object`);
    if (name !== metadataName) tensors.push(storedTensor(name, field));
    else
      for (const [key, value] of Object.entries(field)) {
        if (typeof value !== "string") broken(`the metadata ${JSON.stringify(key)} is no text`);
        metadata.set(key, value);
      }
  }
  tensors.sort((a, b) => a.start - b.start || a.bytes - b.bytes);
  let next = 0;
  for (const { name, start, bytes: length } of tensors) {
    if (start !== next)
      broken(`${JSON.stringify(name)} begins at byte ${start}; the tensors before it end at ${next}`);
    next = start + length;
  }
  if (next !== dataBytes) broken(`its tensors have ${next} bytes, and the file has ${dataBytes} for them`);
  return { tensors, metadata };
}

function parsed(bytes: Uint8Array): Record<string, unknown> {
  let fields: unknown;
  try {
    fields = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw failure("its header is no JSON text", cause);
  }
  return isObject(fields) ? fields : broken("its header is no JSON object");
}

function storedTensor(
  name: string,
  { dtype: type, shape, data_offsets: offsets }: Record<string, unknown>,
): StoredTensor {
  const title = JSON.stringify(name);
  const dtype = typeof type === "string" ? typesByName.get(type) : undefined;
  if (dtype === undefined)
    throw new BackendError(
      "UNSUPPORTED",
      `safetensors: ${title} has the type ${JSON.stringify(type)}; allowed: ${[...typesByName.keys()].join(", ")}`,
      { operation: "safetensors" },
    );
  if (!isCounts(shape)) return broken(`${title} has the shape ${JSON.stringify(shape)}`);
  if (shape.length > mostAxes)
    throw new BackendError(
      "UNSUPPORTED",
      `safetensors: ${title} has ${shape.length} axes; allowed: at most ${mostAxes}`,
      { operation: "safetensors" },
    );
  if (!isCounts(offsets) || offsets.length !== 2)
    return broken(`${title} has the offsets ${JSON.stringify(offsets)}`);
  const [start, end] = offsets as [number, number];
  const bytes = sizeOf(shape) * dtypeBytes[dtype];
  if (end - start !== bytes)
    broken(`${title} has the offsets [${start}, ${end}], and ${bytes} bytes by its type and shape`);
  return { name, dtype, shape, start, bytes };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((entry) => Number.isSafeInteger(entry) && entry >= 0);
}

/** Throws: the file is no safetensors file, or broken. */
export function broken(reason: string): never {
  throw failure(reason);
}

function failure(reason: string, cause?: unknown): BackendError {
  const details = { operation: "safetensors", ...(cause === undefined ? {} : { cause }) };
  return new BackendError("INVALID_ARGUMENT", `safetensors: the file is broken: ${reason}`, details);
}
