import {
  type ComputeBackend,
  costOf,
  type DeviceHandle,
  type DType,
  decodeFloat16,
  dtypeBytes,
  encodeFloat16,
} from "@backplane/core";
import type { Case, Inputs } from "./cases.js";

export interface Measurement {
  readonly backend: string;
  readonly operation: string;
  readonly dtype: DType;
  readonly case: string;
  /** Median over the samples, per call, of enqueuing a series of calls and waiting for them. */
  readonly microseconds: number;
  readonly samples: number;
  readonly gflops: number;
  /** Bytes that must cross memory at least once, over the time. */
  readonly gigabytesPerSecond: number;
  /** The worst error found, as a fraction of what is allowed; the case fails from 1 on. */
  readonly worstError: number;
}

/** Elements checked against float64 before anything is timed. */
const checkedElements = 64;
/** A GPU that has been idle, as while results were checked, needs this long to raise its clocks. */
const warmUpMilliseconds = 300;
const sampleMilliseconds = 100;
const sampleCount = 7;

/** Checks, then times one case. Throws where the result is wrong. */
export async function measure(backend: ComputeBackend, name: string, test: Case): Promise<Measurement> {
  const handles: Record<string, DeviceHandle> = {};
  try {
    const inputs = upload(backend, test, handles);
    const outputBytes = test.output.elements * dtypeBytes[test.dtype];
    handles[test.output.argument] = backend.alloc(outputBytes);
    const args = test.args(handles);
    const call = backend[test.operation].bind(backend) as (args: unknown) => void;

    call(args);
    const worstError = await verify(backend, test, inputs, handles[test.output.argument]!);
    const times = await time(backend, () => call(args));
    const seconds = times[Math.floor(times.length / 2)]!;
    const cost = costOf(test.operation, args);
    return {
      ...{ backend: name, operation: test.operation, dtype: test.dtype, case: test.name },
      microseconds: seconds * 1e6,
      samples: times.length,
      gflops: cost.flops / seconds / 1e9,
      gigabytesPerSecond: cost.bytes / seconds / 1e9,
      worstError,
    };
  } finally {
    for (const handle of Object.values(handles)) backend.free(handle);
  }
}

function upload(backend: ComputeBackend, test: Case, handles: Record<string, DeviceHandle>): Inputs {
  const random = generator(1);
  const inputs: Record<string, Float32Array> = {};
  for (const [argument, elements] of Object.entries(test.inputs)) {
    const values = Float32Array.from({ length: elements }, () => random() * 2 - 1);
    const stored = test.dtype === "f16" ? encodeFloat16(values) : values;
    handles[argument] = backend.alloc(stored.byteLength, { zero: false });
    backend.copyHtoD(handles[argument], stored);
    inputs[argument] = stored instanceof Uint16Array ? decodeFloat16(stored) : values;
  }
  return inputs;
}

async function verify(
  backend: ComputeBackend,
  test: Case,
  inputs: Inputs,
  output: DeviceHandle,
): Promise<number> {
  const { elements } = test.output;
  const stored = test.dtype === "f16" ? new Uint16Array(elements) : new Float32Array(elements);
  await backend.copyDtoH(stored, output);
  const random = generator(2);
  let worst = 0;
  for (let i = 0; i < checkedElements; i++) {
    // The last element is always among those checked: edge tiles go wrong first.
    const index = i === 0 ? elements - 1 : Math.floor(random() * elements);
    const got = stored instanceof Uint16Array ? decodeFloat16([stored[index]!])[0]! : stored[index]!;
    const { value, tolerance } = test.expected(inputs, index);
    const error = Math.abs(got - value) / tolerance;
    if (!(error <= 1))
      throw new Error(
        `${test.operation} ${test.name}: element ${index} is ${got}, expected ${value} +- ${tolerance}`,
      );
    worst = Math.max(worst, error);
  }
  return worst;
}

/** Seconds per call of each sample, ascending. A sample repeats the call for long enough to be timed. */
async function time(backend: ComputeBackend, call: () => void): Promise<number[]> {
  const sample = async (repeats: number): Promise<number> => {
    const start = performance.now();
    for (let i = 0; i < repeats; i++) call();
    await backend.synchronize();
    return (performance.now() - start) / 1000 / repeats;
  };
  let once = await sample(1);
  for (const start = performance.now(); performance.now() - start < warmUpMilliseconds; )
    once = await sample(Math.min(Math.max(Math.round(0.01 / once), 1), 100));
  const repeats = Math.min(Math.max(Math.round(sampleMilliseconds / 1000 / once), 1), 2000);
  const times: number[] = [];
  for (let i = 0; i < sampleCount; i++) times.push(await sample(repeats));
  return times.sort((a, b) => a - b);
}

/** Uniform numbers in [0, 1): mulberry32, by Tommy Ettinger, public domain. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
