import { type ComputeBackend, type DeviceHandle, decodeFloat16, dtypeBytes } from "@backplane/core";
import type { Case, Expected, Inputs, Prepared } from "./cases/case.js";
import { generator, PeriodicData } from "./data.js";

/** How long to time, and how long to work before. */
export interface Pace {
  /** Seconds that one sample lasts at least. */
  readonly sample: number;
  /** Seconds of work before every sample, since an idle GPU has lowered its clocks. */
  readonly warmUp: number;
}

/** Somebody who can do a case, ready to be timed again and again. */
export interface Contender {
  /** Seconds per operation. */
  sample(pace: Pace): Promise<number>;
  close(): void | Promise<void>;
}

/** One of ours that has been checked. */
export interface CheckedContender extends Contender {
  /** The worst error found, as a share of the allowed error. */
  readonly worstError: number;
}

/** Most elements that are compared with float64; fewer if each of them is long to compute. */
const mostChecked = 64;
/** Terms that are summed in float64 for all of them together. */
const mostTerms = 2 ** 25;

/** The contents of the output before: not a result, and not zero. */
const poison = 12345;

/** Uploads a case's inputs and checks its result. Throws if that is wrong. */
export async function openContender(
  backend: ComputeBackend,
  test: Case,
  expected: Expectations,
): Promise<CheckedContender> {
  const handles: Record<string, DeviceHandle> = {};
  let prepared: Prepared | undefined;
  const close = () => {
    prepared?.close?.();
    for (const handle of Object.values(handles)) backend.free(handle);
  };
  try {
    for (const [argument, elements] of Object.entries(test.inputs)) {
      const bytes = expected.inputs[argument]!.stored.BYTES_PER_ELEMENT;
      handles[argument] = backend.alloc(elements * bytes, { zero: false });
      expected.inputs[argument]!.write(backend, handles[argument], elements);
    }
    const { argument, elements, extent = elements, dtype = test.dtype } = test.output;
    if (handles[argument] === undefined) {
      handles[argument] = backend.alloc(extent * dtypeBytes[dtype], { zero: false });
      backend.fill(handles[argument], dtype === "u8" ? poison % 256 : poison, extent, dtype);
    }
    prepared = test.prepare(backend, handles, expected.inputs);
    await prepared.call();
    const results = await read(backend, test, prepared, handles[argument], expected.indices);
    const worstError = checkResults(test, results, expected);
    return { worstError, sample: timer(prepared, () => backend.synchronize()), close };
  } catch (error) {
    close();
    throw error;
  }
}

/** The same inputs and expected values for every backend that does the case. */
export class Expectations {
  readonly inputs: Inputs;
  /** Which elements are checked. The last is among them: edge tiles go wrong first. */
  readonly indices: readonly number[];
  readonly #test: Case;
  #values: readonly Expected[] | undefined;

  constructor(test: Case) {
    const random = generator(2);
    const { elements } = test.output;
    const { terms = Math.max(test.cost.flops / elements / 2, 1) } = test;
    const count = Math.min(Math.max(Math.floor(mostTerms / terms), 4), mostChecked, elements);
    this.#test = test;
    this.inputs = Object.fromEntries(
      Object.keys(test.inputs).map((argument, i) => {
        const dtype = test.wide?.includes(argument) ? "f32" : test.dtype;
        const isBytes = test.bytes?.includes(argument);
        return [argument, new PeriodicData(dtype, i + 1, test.below?.[argument], isBytes)];
      }),
    );
    this.indices = Array.from({ length: count }, (_, i) =>
      i === 0 ? elements - 1 : i === 1 ? 0 : Math.floor(random() * elements),
    );
  }

  get values(): readonly Expected[] {
    this.#values ??= this.indices.map((index) => this.#test.expected(this.inputs, index));
    return this.#values;
  }
}

/** Reads single elements only, since whole outputs may be large. */
function read(
  backend: ComputeBackend,
  { dtype, output }: Case,
  { host }: Prepared,
  handle: DeviceHandle,
  indices: readonly number[],
): Promise<number[]> {
  const places = indices.map(output.place ?? ((index) => index));
  const type = output.dtype ?? dtype;
  return Promise.all(
    places.map(async (place) => {
      if (host !== undefined) return host[place]!;
      const stored = {
        f32: new Float32Array(1),
        f16: new Uint16Array(1),
        i32: new Int32Array(1),
        u8: new Uint8Array(1),
      }[type];
      await backend.copyDtoH(stored, { handle, byteOffset: place * dtypeBytes[type] });
      return stored instanceof Uint16Array ? decodeFloat16(stored)[0]! : stored[0]!;
    }),
  );
}

/** Returns the worst error as a share of the allowed error. Throws if an element is off by more. */
export function checkResults(
  test: Case,
  results: readonly number[],
  { indices, values }: Pick<Expectations, "indices" | "values">,
): number {
  let worst = 0;
  for (const [i, got] of results.entries()) {
    const { value, tolerance } = values[i]!;
    const error = Math.abs(got - value);
    if (!(error <= tolerance))
      throw new Error(`element ${indices[i]} is ${got}, expected ${value} +- ${tolerance}`);
    if (error > 0) worst = Math.max(worst, error / tolerance);
  }
  if (results.length === 0) throw new Error(`${test.name} has no output to check`);
  return worst;
}

/** Times series of calls. Each time includes the wait for the work still under way after the last call. */
export function timer(
  { call, operations = 1 }: Pick<Prepared, "call" | "operations">,
  finish: () => Promise<void>,
): Contender["sample"] {
  const run = async (repeats: number): Promise<number> => {
    const start = performance.now();
    for (let i = 0; i < repeats; i++) {
      const waiting = call();
      if (waiting !== undefined) await waiting;
    }
    await finish();
    return (performance.now() - start) / 1000;
  };
  return async ({ sample, warmUp }) => {
    let perCall = (await run(1)) || 1e-6;
    // Grows towards the length of the warm-up, so that waiting for the last call no longer counts.
    for (let spent = 0; spent < warmUp; ) {
      const repeats = Math.max(Math.ceil((warmUp - spent) / 4 / perCall), 1);
      const seconds = await run(repeats);
      spent += seconds;
      perCall = seconds / repeats;
    }
    const repeats = Math.max(Math.ceil(sample / perCall), 1);
    return (await run(repeats)) / repeats / operations;
  };
}

/** Bytes to copy in order to measure the memory's rate: far more than caches hold. */
const largestCopy = 2 ** 29;

/** An aligned copy on the device, and the bytes that it reads and writes. */
export function openCopy(backend: ComputeBackend): Contender & { readonly bytes: number } {
  const { software, kind } = backend.capabilities.device;
  // Machines without a GPU have little memory and the caches of a CPU.
  const bytes = kind === "gpu" && !software ? largestCopy : 2 ** 26;
  const source = backend.alloc(bytes);
  const destination = backend.alloc(bytes);
  const close = () => {
    backend.free(source);
    backend.free(destination);
  };
  new PeriodicData("f32", 1).write(backend, source, bytes / 4);
  const call = () => backend.copyDtoD(destination, source, bytes);
  return { bytes: 2 * bytes, sample: timer({ call }, () => backend.synchronize()), close };
}
