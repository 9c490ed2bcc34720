import { elementTypes, type OperationName } from "@backplane/core";
import type { KernelSet } from "../kernels/index.js";
import type { BufferRegion, DeviceMemory } from "../runtime/index.js";
import type { TuningDevice } from "./device.js";
import type { AnyProblem, TuningTask } from "./rehearsal.js";

/** Bytes of numbers that are repeated; not a multiple of likely row lengths. */
const BLOCK_BYTES = 4 * 65_521;

/** Results are compared at this many places, by this many bytes each. */
const SAMPLES = 16;
const SAMPLE_BYTES = 4096;

/** The largest difference that rounding may explain, relative to the largest result. */
const TOLERANCE: Readonly<Record<DType, number>> = {
  ...{ f32: 2 ** -12, f16: 2 ** -7, bf16: 2 ** -4 },
  ...{ i32: 0, u32: 0, u8: 0 },
};

/** Element types of problems. */
type DType = AnyProblem["dtype"];

const bitArrays = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array } as const;

/** Returns the operand that an operation writes. */
function outputOf({ definitions }: KernelSet, operation: OperationName): string {
  const { operands, arguments: table } = definitions[operation]!;
  return operands.find((name) => table[name]!.role !== "reads")!;
}

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

/** A problem like the caller's, on memory of our own that holds numbers from 0.5 to 1.5 (integers: 50 to 150) of either sign. */
export class Operands {
  #task: TuningTask;
  readonly #device: TuningDevice;
  readonly #dtype: DType;
  #block: DeviceMemory | undefined;
  #output: BufferRegion | undefined;
  readonly #memories: DeviceMemory[] = [];

  constructor(device: TuningDevice, task: TuningTask) {
    this.#device = device;
    this.#dtype = task.problem.dtype;
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
    this.#output = regions[outputOf(this.#device.kernels, operation)];
    const repeatable = this.#device.kernels.entryOf(operation).variants?.repeatable?.(problem) ?? problem;
    this.#task = { operation, problem: { ...repeatable, ...regions } as AnyProblem };
  }

  free(): void {
    for (const memory of this.#memories) this.#device.free(memory);
  }

  /** Restores the first contents of the output. */
  reset(): void {
    this.#fill(this.#output!);
  }

  /** Some of the results. */
  async results(): Promise<Float64Array> {
    const { memory, byteOffset, byteLength } = this.#output!;
    const whole = byteLength <= SAMPLES * SAMPLE_BYTES;
    const length = whole ? byteLength : SAMPLE_BYTES;
    const count = whole ? 1 : SAMPLES;
    const bytes = new Uint8Array(count * length);
    for (let i = 0; i < count; i++) {
      const start = count === 1 ? 0 : Math.floor((i * (byteLength - length)) / (count - 1) / 4) * 4;
      await this.#device.read(bytes.subarray(i * length, (i + 1) * length), memory, byteOffset + start);
    }
    const { bytes: size, fromBits } = elementTypes[this.#dtype];
    return Float64Array.from(new bitArrays[size](bytes.buffer), fromBits);
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
function noise(dtype: DType): Uint8Array {
  const { bytes, range, toBits } = elementTypes[dtype];
  let state = 1;
  const bits = new bitArrays[bytes](BLOCK_BYTES / bytes);
  for (let i = 0; i < bits.length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const magnitude = 0.5 + (state >>> 8) / 2 ** 24;
    const value = state & 0x80 ? magnitude : -magnitude;
    bits[i] = toBits(range === undefined ? value : Math.round(100 * value));
  }
  return new Uint8Array(bits.buffer);
}

/** Returns how results differ from those of the default by more than rounding; undefined if they do not. */
export function difference(results: Float64Array, expected: Float64Array, dtype: DType): string | undefined {
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
