import { type ComputeBackend, type DeviceHandle, type DType, dtypeBytes } from "@backplane/core";
import { decoded, storages } from "./elements.js";
import type { LawContext } from "./law.js";
import type { Emit } from "./ops/operation.js";

/** The expected output of an operation, element by element. */
export interface Expected {
  /** The place of each element, in elements from the start of the operand. */
  readonly places: readonly number[];
  readonly values: readonly number[];
  /** The magnitude that scales the allowed error of each element. */
  readonly magnitudes: readonly number[];
}

/** Gathers the elements that a reference formula emits. */
export function collect(formula: (emit: Emit) => void): Expected {
  const places: number[] = [];
  const values: number[] = [];
  const magnitudes: number[] = [];
  formula((place, value, magnitude) => {
    places.push(place);
    values.push(value);
    magnitudes.push(magnitude);
  });
  return { places, values, magnitudes };
}

/** The places of operands inside larger allocations. */
export interface Placement {
  /** Elements before each operand, in turn. */
  readonly before: readonly number[];
  /** Whether all operands are slices of one allocation. */
  readonly shared: boolean;
}

/** Elements after each operand that must stay as they are. */
const guardAfter = 5;

/** The place of an operand, in the form that operations take. */
export interface Slice {
  readonly handle: DeviceHandle;
  readonly byteOffset: number;
}

/** One operation with one output. */
export interface Execution<Name extends string> extends Omit<WholeExecution<Name>, "written"> {
  readonly output: NoInfer<Name>;
  /** Elements of the output that must be written; everything else must keep its bits. */
  readonly written: readonly number[];
}

/** One operation with any outputs. */
export interface WholeExecution<Name extends string> {
  readonly backend: ComputeBackend;
  readonly dtype: DType;
  /** The element types of operands that have another. */
  readonly dtypes?: { readonly [Operand in Name]?: DType };
  readonly placement: Placement;
  /** The stored elements of each operand. NaN stands for poison, which must not be read. */
  readonly operands: Readonly<Record<Name, Float64Array>>;
  /** Elements of each output that must be written; everything else must keep its bits. */
  readonly written: { readonly [Operand in NoInfer<Name>]?: readonly number[] };
  readonly call: (slices: Readonly<Record<Name, Slice>>) => void;
}

/** `executeAll` for one output, which it returns. */
export async function execute<Name extends string>(execution: Execution<Name>): Promise<Float64Array> {
  const { output, written } = execution;
  const results = await executeAll<Name>({ ...execution, written: { [output]: written } as never });
  return results[output]!;
}

/**
 * Runs one operation on operands that lie at odd offsets in larger allocations, with poison in the gaps and
 * around them. Returns the outputs as stored. Throws if a single bit outside the output elements has changed.
 */
export async function executeAll<Name extends string>(
  execution: WholeExecution<Name>,
): Promise<{ readonly [Operand in Name]?: Float64Array }> {
  const { backend, dtype, dtypes = {}, placement, operands, written, call } = execution;
  const names = Object.keys(operands) as Name[];
  const images: Image[] = [];
  const spots = {} as Record<Name, Spot>;
  let next: Image | undefined;
  for (const [i, name] of names.entries()) {
    if (next === undefined || !placement.shared) {
      next = { length: 0, spots: [], bytes: new Uint8Array(0) };
      images.push(next);
    }
    const type = (dtypes as Partial<Record<Name, DType>>)[name] ?? dtype;
    const size = dtypeBytes[type];
    const from = Math.ceil(next.length / size) * size;
    // An operand without elements that has an allocation of its own gets one of no bytes.
    const isNothing = !placement.shared && operands[name].length === 0;
    const start = isNothing ? 0 : from + (placement.before[i % placement.before.length] ?? 0) * size;
    const end = start + operands[name].length * size;
    const spot = { name, dtype: type, size, image: next, from, start, end, stored: operands[name] };
    spots[name] = spot;
    if (isNothing) continue;
    next.spots.push(spot);
    next.length = end + guardAfter * size;
  }
  for (const image of images) image.bytes = render(image);

  const handles = new Map<Image, DeviceHandle>();
  try {
    for (const image of images) {
      const handle = backend.alloc(image.bytes.length, { zero: false });
      handles.set(image, handle);
      backend.copyHtoD(handle, image.bytes);
    }
    const slices = {} as Record<Name, Slice>;
    for (const name of names)
      slices[name] = { handle: handles.get(spots[name].image)!, byteOffset: spots[name].start };
    call(slices);
    const results = images.map((image) => new Uint8Array(image.bytes.length));
    await Promise.all(images.map((image, i) => backend.copyDtoH(results[i]!, handles.get(image)!)));
    const stored: { [Operand in Name]?: Float64Array } = {};
    const outputs = Object.entries(written) as [Name, readonly number[]][];
    for (const [output, places] of outputs) {
      const { image: home, start, size, dtype: type } = spots[output];
      const bytes = results[images.indexOf(home)]!;
      stored[output] = decoded(bytes.buffer, start, operands[output].length, type);
      // Restore the elements that were to be written, so that all bytes must be those that were sent.
      for (const place of places) {
        const from = start + place * size;
        for (let i = from; i < from + size; i++) bytes[i] = home.bytes[i]!;
      }
    }
    for (const [i, image] of images.entries()) {
      const at = firstDifference(results[i]!, image.bytes);
      if (at >= 0) throw new Damage(describeDamage(at, image, Object.keys(written)));
    }
    return stored;
  } finally {
    for (const handle of handles.values()) backend.free(handle);
  }
}

/** The contents of one allocation; lengths and places in bytes. */
interface Image {
  length: number;
  readonly spots: Spot[];
  bytes: Uint8Array<ArrayBuffer>;
}

/** An operand in an image: poison from `from` on, elements from `start` to `end`, and poison again. */
interface Spot {
  readonly name: string;
  readonly dtype: DType;
  readonly size: number;
  readonly image: Image;
  readonly from: number;
  readonly start: number;
  readonly end: number;
  readonly stored: Float64Array;
}

/** Unsigned words of as many bytes as an element. */
const bitArrays: Readonly<
  Record<number, (buffer: ArrayBuffer, byteOffset: number, length: number) => { fill(bits: number): unknown }>
> = {
  1: (buffer, byteOffset, length) => new Uint8Array(buffer, byteOffset, length),
  2: (buffer, byteOffset, length) => new Uint16Array(buffer, byteOffset, length),
  4: (buffer, byteOffset, length) => new Uint32Array(buffer, byteOffset, length),
};

function render({ length, spots }: Image): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (const { dtype, size, from, start, end, stored } of spots) {
    const { words, encode, poison } = storages[dtype];
    bitArrays[size]!(bytes.buffer, from, (end - from) / size + guardAfter).fill(poison);
    const elements = words(bytes.buffer, start, stored.length);
    for (let i = 0; i < stored.length; i++) if (!Number.isNaN(stored[i]!)) elements[i] = encode(stored[i]!);
  }
  return bytes;
}

/** Returns the index of the first byte that differs, or -1. */
function firstDifference(a: Uint8Array<ArrayBuffer>, b: Uint8Array<ArrayBuffer>): number {
  const words = a.length >> 2;
  const wordsA = new Uint32Array(a.buffer, 0, words);
  const wordsB = new Uint32Array(b.buffer, 0, words);
  let word = 0;
  while (word < words && wordsA[word] === wordsB[word]) word++;
  for (let i = 4 * word; i < a.length; i++) if (a[i] !== b[i]) return i;
  return -1;
}

function describeDamage(byte: number, { spots }: Image, outputs: readonly string[]): string {
  for (const { name, dtype, size, start, end } of spots) {
    if (byte >= end + guardAfter * size) continue;
    if (byte < start)
      return `wrote ${Math.ceil((start - byte) / size)} elements before the start of ${name} (${dtype})`;
    const element = Math.floor((byte - start) / size);
    if (byte >= end)
      return `wrote ${Math.floor((byte - end) / size) + 1} elements past the end of ${name} (${dtype})`;
    return outputs.includes(name)
      ? `wrote into a gap of ${name}, at element ${element}, which is no element of the result`
      : `changed its input ${name} at element ${element}`;
  }
  return `wrote outside of all operands, at byte ${byte} of an allocation`;
}

/**
 * Checks every element against its tolerance and returns the largest error over tolerance. The comparison
 * makes a NaN fail.
 */
export function verify(
  got: Float64Array,
  expected: Expected,
  tolerance: (value: number, magnitude: number, index: number) => number,
): number {
  let worst = 0;
  let wrong = 0;
  let first = -1;
  let firstAllowed = 0;
  for (const [i, place] of expected.places.entries()) {
    const value = expected.values[i]!;
    const actual = got[place]!;
    if (value === actual) continue;
    const allowed = tolerance(value, expected.magnitudes[i]!, i);
    const error = Math.abs(actual - value);
    if (error <= allowed) worst = Math.max(worst, error / allowed);
    else {
      const ratio = error / allowed;
      worst = Number.isNaN(ratio) ? Number.POSITIVE_INFINITY : Math.max(worst, ratio);
      if (wrong++ > 0) continue;
      first = i;
      firstAllowed = allowed;
    }
  }
  if (wrong > 0) throw new WrongResults(got, expected, { first, allowed: firstAllowed, wrong, worst });
  return worst;
}

/** `verify` that also records the outcome for reports: the tolerance used, and the shape. */
export function measure(
  context: Pick<LawContext, "observe">,
  extents: readonly number[],
  got: Float64Array,
  expected: Expected,
  tolerance: (value: number, magnitude: number, index: number) => number,
): void {
  try {
    context.observe(verify(got, expected, tolerance), extents);
  } catch (error) {
    if (error instanceof WrongResults) context.observe(error.worst, extents);
    throw error;
  }
}

interface FirstWrong {
  readonly first: number;
  readonly allowed: number;
  readonly wrong: number;
  readonly worst: number;
}

/** Results round the first wrong one. Numbers as text, since they may be NaN or infinite. */
export interface WrongValues {
  /** Which result is wrong first, counting from 0 in the order of the output. */
  readonly first: number;
  /** How many are wrong, and of how many. */
  readonly wrong: number;
  readonly total: number;
  /** Index of the first entry of `got` and `expected`. */
  readonly from: number;
  readonly got: readonly string[];
  readonly expected: readonly string[];
  /** Of the first wrong result. */
  readonly error: string;
  readonly allowed: string;
}

/** Results outside their tolerance. The message shows the first of them and its neighbours. */
export class WrongResults extends Error {
  /** The largest error over tolerance; infinite if a result is NaN, or if no error is allowed. */
  readonly worst: number;
  readonly values: WrongValues;

  constructor(got: Float64Array, expected: Expected, { first, allowed, wrong, worst }: FirstWrong) {
    const total = expected.places.length;
    const from = Math.max(0, first - 2);
    const near = (valueAt: (i: number) => number): string[] =>
      Array.from({ length: Math.min(first + 4, total) - from }, (_, i) => shown(valueAt(from + i)));
    const place = expected.places[first]!;
    const values: WrongValues = {
      ...{ first, wrong, total, from },
      got: near((i) => got[expected.places[i]!]!),
      expected: near((i) => expected.values[i]!),
      error: short(Math.abs(got[place]! - expected.values[first]!)),
      allowed: short(allowed),
    };
    super(
      `${wrong} of ${total} results are wrong; result ${first} (element ${place} of the output): ` +
        `got ${shown(got[place]!)}, expected ${shown(expected.values[first]!)}; ` +
        `error ${values.error}, allowed ${values.allowed}; near it, from result ${from}: ` +
        `got [${values.got.join(", ")}], expected [${values.expected.join(", ")}]`,
    );
    this.name = "WrongResults";
    this.worst = worst;
    this.values = values;
  }
}

/** Renders a number with four digits, without zeros at the end. */
function short(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** Renders a number as a JavaScript literal; -0 is distinct from 0. */
function shown(value: number): string {
  return Object.is(value, -0) ? "-0" : String(value);
}

/** Bytes changed that are not part of the result. The message says which. */
export class Damage extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Damage";
  }
}
