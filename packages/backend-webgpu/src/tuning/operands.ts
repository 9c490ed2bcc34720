import { decodeFloat16, encodeFloat16, type FloatType, type OperationName } from "@backplane/core";
import type { BufferRegion, DeviceMemory } from "../runtime/index.js";
import type { TuningDevice } from "./device.js";
import type { AnyProblem, TuningTask } from "./rehearsal.js";

/** Bytes of numbers that are repeated; not a multiple of likely row lengths. */
const BLOCK_BYTES = 4 * 65_521;

/** Results are compared at this many places, by this many bytes each. */
const SAMPLES = 16;
const SAMPLE_BYTES = 4096;

/** The largest difference that rounding may explain, relative to the largest result. */
const TOLERANCE: Readonly<Record<FloatType, number>> = { f32: 2 ** -12, f16: 2 ** -7 };

const outputOf: Partial<Readonly<Record<OperationName, string>>> = {
  ...{ gemm: "c", batchedGemm: "c", conv2d: "output", attention: "out", reduce: "output" },
};

/** Bytes of all operands of a problem. */
export function operandBytes(problem: AnyProblem): number {
  return regionsOf(problem).reduce((sum, [, { byteLength }]) => sum + byteLength, 0);
}

function regionsOf(problem: AnyProblem): [string, BufferRegion][] {
  return (Object.entries(problem) as [string, unknown][]).filter((entry): entry is [string, BufferRegion] => {
    const [, value] = entry;
    return typeof value === "object" && value !== null && "memory" in value;
  });
}

/** A problem like the caller's, on memory of our own that holds numbers from 0.5 to 1.5 of either sign. */
export class Operands {
  #task: TuningTask;
  readonly #device: TuningDevice;
  readonly #dtype: FloatType;
  #block: DeviceMemory | undefined;
  #output: BufferRegion | undefined;
  readonly #memories: DeviceMemory[] = [];

  constructor(device: TuningDevice, task: TuningTask) {
    this.#device = device;
    this.#dtype = task.problem.dtype as FloatType;
    this.#task = task;
  }

  /** The problem; once there is memory for it, on that memory. */
  get task(): TuningTask {
    return this.#task;
  }

  /** Allocates memory, all of which `free` returns, and fills it. */
  place(): void {
    const { operation, problem } = this.#task;
    this.#block = this.#alloc(BLOCK_BYTES);
    this.#device.write(this.#block, noise(this.#dtype));
    // Kernels look at places modulo 16 bytes.
    const own = regionsOf(problem).map(([name, { byteOffset, byteLength }]) => {
      const place = byteOffset % 16;
      return [name, { memory: this.#alloc(place + byteLength), byteOffset: place, byteLength }] as const;
    });
    for (const [, region] of own) this.#fill(region);
    const regions = Object.fromEntries(own);
    this.#output = regions[outputOf[operation]!];
    // Results that are added to again and again must stay finite.
    const factors = "beta" in problem ? { alpha: 1, beta: problem.beta === 0 ? 0 : 0.5 } : {};
    this.#task = { operation, problem: { ...problem, ...regions, ...factors } as AnyProblem };
  }

  free(): void {
    for (const memory of this.#memories) this.#device.free(memory);
  }

  /** Restores the first contents of the output. */
  reset(): void {
    this.#fill(this.#output!);
  }

  /** Some of the results. */
  async results(): Promise<Float32Array> {
    const { memory, byteOffset, byteLength } = this.#output!;
    const whole = byteLength <= SAMPLES * SAMPLE_BYTES;
    const length = whole ? byteLength : SAMPLE_BYTES;
    const count = whole ? 1 : SAMPLES;
    const bytes = new Uint8Array(count * length);
    for (let i = 0; i < count; i++) {
      const start = count === 1 ? 0 : Math.floor((i * (byteLength - length)) / (count - 1) / 4) * 4;
      await this.#device.read(bytes.subarray(i * length, (i + 1) * length), memory, byteOffset + start);
    }
    return this.#dtype === "f32"
      ? new Float32Array(bytes.buffer)
      : decodeFloat16(new Uint16Array(bytes.buffer));
  }

  #alloc(bytes: number): DeviceMemory {
    const memory = this.#device.alloc(Math.max(bytes, 1));
    this.#memories.push(memory);
    return memory;
  }

  #fill({ memory, byteOffset, byteLength }: BufferRegion): void {
    for (let done = 0; done < byteLength; done += BLOCK_BYTES) {
      const length = Math.min(BLOCK_BYTES, byteLength - done);
      this.#device.copy(
        { memory, byteOffset: byteOffset + done, byteLength: length },
        { memory: this.#block!, byteOffset: 0, byteLength: length },
      );
    }
  }
}

/** Repeatable numbers (a linear congruential generator, with the factors of Numerical Recipes). */
function noise(dtype: FloatType): Uint8Array {
  let state = 1;
  const values = Float32Array.from({ length: BLOCK_BYTES / (dtype === "f32" ? 4 : 2) }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const magnitude = 0.5 + (state >>> 8) / 2 ** 24;
    return state & 0x80 ? magnitude : -magnitude;
  });
  return new Uint8Array((dtype === "f32" ? values : encodeFloat16(values)).buffer);
}

/** Returns how results differ from those of the default by more than rounding; undefined if they do not. */
export function difference(
  results: Float32Array,
  expected: Float32Array,
  dtype: FloatType,
): string | undefined {
  const finite = expected.filter((value) => Number.isFinite(value));
  const largest = finite.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  for (const [i, value] of results.entries()) {
    const wanted = expected[i]!;
    if (Object.is(value, wanted) || Math.abs(value - wanted) <= TOLERANCE[dtype] * largest) continue;
    // A result that overflows may do so a little earlier or later, which leads to NaN.
    if (!Number.isFinite(wanted)) continue;
    return `gives ${value} where the default gives ${wanted}`;
  }
  return undefined;
}
