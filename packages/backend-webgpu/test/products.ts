import { unaryFunctions } from "@backplane/conformance/functions";
import { type Activation, type BackendError, dtypeBytes, type FloatType } from "@backplane/core";
import { assert } from "chai";
import { create } from "webgpu";
import { general } from "#src/device/families.js";
import type { DeviceFeatures } from "#src/device/features.js";
import type { WebGpuDriver } from "#src/driver.js";
import type { Program } from "#src/program/program.js";
import type { KernelContext } from "#src/runtime/context.js";
import { type BufferRegion, decode, driverOf, encode, noise, random } from "./support.js";

/**
 * Kept for good: see `node.ts`. Without the first toggle SwiftShader spends up to a second on compiling the
 * zeros that workgroup memory starts with; Dawn then writes them by a loop instead. With the second, no index
 * is clamped: what a kernel reads beyond its operands is not made harmless, and compiling takes 10 to 30 % less.
 * The laws of the conformance suite run on the same kernels as applications do, with the clamps.
 */
const dawn = create([
  "disable-dawn-features=use_vulkan_zero_initialize_workgroup_memory_extension",
  "enable-dawn-features=disable_robustness",
]);

/** Rounding unit of f32 as the bounds have it: WGSL specifies no rounding mode. */
export const epsilon: number = 2 ** -23;

/** The bound on the relative error of n roundings. */
export function gamma(n: number): number {
  return (n * epsilon) / (1 - n * epsilon);
}

const finalRoundings: Readonly<Record<FloatType, (value: number) => number>> = {
  f32: () => 0,
  f16: (value) => 2 ** -10 * Math.abs(value) + 2 ** -25,
};

/** What rounding to `dtype` at the end adds to an error bound, with subnormals of f16. */
export function finalRounding(dtype: FloatType, value: number): number {
  return finalRoundings[dtype](value);
}

/** What decisions are based on where a GPU stands behind the device. */
export function asLargeGpu(features: DeviceFeatures): DeviceFeatures {
  return { ...features, subgroupMinSize: 32, subgroupMaxSize: 32, family: general };
}

/**
 * What is expected of a sum that is off by `bound` at the most in f32, after an activation. The slopes of
 * all of them are below 1.13; they are right to a few units in the last place, of x where they cancel.
 */
export function finishedSum(
  index: number,
  sum: number,
  bound: number,
  dtype: FloatType,
  activation: Activation | undefined,
): Expected {
  if (activation === undefined) return { index, value: sum, tolerance: bound + finalRounding(dtype, sum) };
  const value = unaryFunctions[activation](sum);
  const own = activation === "relu" || activation === "relu6" ? 0 : 8 * epsilon * Math.abs(sum);
  return { index, value, tolerance: 1.13 * bound + own + finalRounding(dtype, value) };
}

export interface Expected {
  readonly index: number;
  readonly value: number;
  /** Infinite, if the element may be anything, also NaN. */
  readonly tolerance: number;
}

/** Runs kernels on their own, on data that can be chosen freely, and looks at every byte afterwards. */
export class ProductDevice {
  readonly driver: WebGpuDriver = driverOf(async () => dawn);
  readonly faults: BackendError[] = [];
  /** Names of the programs that the last `run` enqueued. */
  programs: string[] = [];
  /** What is run in place of each program. */
  instead: <B extends string, P extends string>(program: Program<B, P>) => Program<B, P> = (program) =>
    program;

  async open(): Promise<void> {
    await this.driver.open({
      lost: (reason) => assert.fail(reason),
      error: (error) => this.faults.push(error),
    });
  }

  async close(): Promise<void> {
    await this.driver.synchronize();
    await this.driver.close();
    if (this.faults.length > 0) throw this.faults[0]!;
  }

  /** A region of `values` rounded to `dtype`, `offset` elements into memory with noise around it. */
  place(values: ArrayLike<number>, dtype: FloatType | "u8", offset = 0): BufferRegion {
    const bytes = encode(values, dtype);
    const byteOffset = offset * dtypeBytes[dtype];
    const all = noise(byteOffset + bytes.byteLength + 37);
    all.set(bytes, byteOffset);
    const memory = this.driver.alloc(all.byteLength, false);
    this.driver.write(memory, 0, all);
    return { memory, byteOffset, byteLength: bytes.byteLength };
  }

  free(...regions: readonly BufferRegion[]): void {
    for (const { memory } of regions) this.driver.free(memory);
  }

  async bytes({ memory }: BufferRegion): Promise<Uint8Array> {
    const bytes = new Uint8Array(memory.bytes);
    await this.driver.read(bytes, memory, 0);
    return bytes;
  }

  run(
    enqueue: (context: KernelContext) => void,
    features: (real: DeviceFeatures) => DeviceFeatures = (real) => real,
  ): void {
    this.programs = [];
    this.driver.withContext((context) =>
      enqueue({
        features: features(context.features),
        dispatch: (program, regions, parameters, workgroups) => {
          this.programs.push(program.name);
          context.dispatch(this.instead(program), regions, parameters, workgroups);
        },
        scratch: (bytes) => context.scratch(bytes),
        copy: (destination, source) => context.copy(destination, source),
        fill: (destination, pattern) => context.fill(destination, pattern),
      }),
    );
  }

  /**
   * Runs what writes `output` and checks each expected element, by its index in the region, and that
   * no other byte of the memory has changed.
   */
  async check(
    output: BufferRegion,
    dtype: FloatType,
    expected: Iterable<Expected>,
    label: string,
    run: () => void,
  ): Promise<void> {
    const before = await this.bytes(output);
    run();
    const after = await this.bytes(output);
    const size = dtypeBytes[dtype];
    const results = decode(after.subarray(output.byteOffset, output.byteOffset + output.byteLength), dtype);
    const where = `${label} by ${this.programs.join(", ")}`;
    for (const { index, value, tolerance } of expected) {
      const error = results[index] === value ? 0 : Math.abs(results[index]! - value);
      if (!(error <= tolerance) && tolerance !== Number.POSITIVE_INFINITY)
        assert.fail(`element ${index} is ${results[index]}, not ${value} within ${tolerance}: ${where}`);
      const at = output.byteOffset + index * size;
      before.set(after.subarray(at, at + size), at);
    }
    const changed = after.findIndex((byte, i) => byte !== before[i]);
    assert.equal(changed, -1, `a byte outside the results was changed: ${where}`);
  }
}

/** Runs `body` with one device for all tests of a suite. */
export function withProducts(): () => ProductDevice {
  const device = new ProductDevice();
  before(() => device.open());
  after(() => device.close());
  return () => device;
}

/** Numbers from -amplitude to amplitude, exact in `dtype`. */
export function signed(count: number, dtype: FloatType, seed: number, amplitude = 1): Float32Array {
  const next = random(seed);
  const values = Float32Array.from({ length: count }, () => amplitude * (2 * next() - 1));
  return decode(encode(values, dtype), dtype);
}
