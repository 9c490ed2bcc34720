import type { WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import {
  BackendError,
  type DriverDescription,
  type DriverEvents,
  decodeFloat16,
  dtypeBytes,
  type ErrorCode,
  encodeFloat16,
  type FloatType,
  type Kernel,
  type OperationName,
  type OperationProblems,
  type Region,
} from "@backplane/core";
import { assert } from "chai";
import { findDawn as findOwnDawn } from "#src/dawn.js";
import type { DeviceFeatures } from "#src/device/features.js";
import type { FindGpu } from "#src/device/native.js";
import { WebGpuDriver } from "#src/driver.js";
import { allKernels } from "#src/kernels/all.js";
import { placeholder } from "#src/kernels/segments/index.js";
import type { KernelContext, KernelDefinition } from "#src/runtime/context.js";
import type { DeviceMemory } from "#src/runtime/memory.js";

/** As the backend finds it. */
export const findDawn = (): Promise<GPU> => findOwnDawn();

/** With all kernels. */
export function driverOf(findGpu: FindGpu, options?: WebGpuOptions): WebGpuDriver {
  return new WebGpuDriver(findGpu, allKernels, options);
}

export type BufferRegion = Region<DeviceMemory>;

/** Against hangs only: how long a process that a test starts may run. Tests may take longer still. */
export const hangMilliseconds = 900_000;

/** The least that WebGPU guarantees. */
export const portable: DeviceFeatures = {
  ...{ shaderF16: false, subgroups: false, subgroupMinSize: 0, subgroupMaxSize: 0, subgroupMatrices: [] },
  limits: {
    maxComputeWorkgroupStorageSize: 16384,
    maxComputeInvocationsPerWorkgroup: 256,
    maxComputeWorkgroupSizeX: 256,
    maxComputeWorkgroupSizeY: 256,
    maxComputeWorkgroupsPerDimension: 65535,
    maxStorageBuffersPerShaderStage: 8,
    maxStorageBufferBindingSize: 2 ** 27,
  },
};

/** Returns the bytes of the largest scratch that a kernel asks for. Nothing is enqueued. */
export function mostScratch<Problem>(
  { run }: Pick<KernelDefinition<Problem>, "run">,
  features: DeviceFeatures,
  problem: Problem,
): number {
  let most = 0;
  const context: KernelContext = {
    features,
    dispatch() {},
    scratch(bytes) {
      most = Math.max(most, bytes);
      return placeholder(bytes);
    },
    copy() {},
    fill() {},
  };
  run(context, problem);
  return most;
}

/** How a device ends under a call: what becomes of it, the code of the call's error, and what does it. */
export const deviceEnds: readonly [string, ErrorCode, (backend: WebGpuBackend) => Promise<void>][] = [
  ["lost", "DEVICE_LOST", (backend) => backend.loseDevice()],
  [
    "lost and opened again",
    "DEVICE_LOST",
    async (backend) => {
      await backend.loseDevice();
      await backend.init();
    },
  ],
  ["disposed of", "DISPOSED", (backend) => backend.dispose()],
];

/** A device that is not the backend's own. */
export async function foreignDevice(): Promise<GPUDevice> {
  return (await (await findDawn()).requestAdapter())!.requestDevice();
}

const STORAGE_AND_COPY = 0x80 | 0x04 | 0x08;

/** A handle whose buffer is gone: work on it is refused. */
export function doomed(backend: WebGpuBackend): ReturnType<WebGpuBackend["alloc"]> {
  const device = backend.native() as GPUDevice;
  const buffer = device.createBuffer({ label: "doomed", size: 64, usage: STORAGE_AND_COPY });
  const handle = backend.importBuffer(buffer);
  buffer.destroy();
  return handle;
}

/** No time passes while `body` records: what it records is divided into batches by its work alone. */
export function withoutTime<Result>(body: () => Result): Result {
  const { now } = performance;
  const moment = performance.now();
  performance.now = () => moment;
  try {
    return body();
  } finally {
    performance.now = now;
  }
}

/** The error that a promise rejects with. */
export async function rejection(promise: Promise<unknown>): Promise<BackendError> {
  const error = await promise.then(
    () => assert.fail("the promise was fulfilled"),
    (reason: unknown) => reason,
  );
  assert.instanceOf(error, BackendError);
  return error as BackendError;
}

/** A driver on the device that the tests were given, with what it reported. */
export class TestDevice {
  readonly driver: WebGpuDriver;
  readonly faults: BackendError[] = [];
  readonly losses: string[] = [];
  description: DriverDescription | undefined;

  constructor(options: WebGpuOptions = {}) {
    this.driver = driverOf(findDawn, options);
  }

  static async open(options: WebGpuOptions = {}): Promise<TestDevice> {
    const device = new TestDevice(options);
    const events: DriverEvents = {
      lost: (reason) => device.losses.push(reason),
      error: (error) => device.faults.push(error),
    };
    device.description = await device.driver.open(events);
    return device;
  }

  /** Closes the device; throws the first fault that was reported meanwhile. */
  async close(): Promise<void> {
    await this.driver.synchronize();
    await this.driver.close();
    if (this.faults.length > 0) throw this.faults[0]!;
  }

  /** Memory with these contents. */
  upload(bytes: Uint8Array): DeviceMemory {
    const memory = this.driver.alloc(bytes.byteLength, false);
    this.driver.write(memory, 0, bytes);
    return memory;
  }

  async download(
    memory: DeviceMemory,
    byteOffset: number,
    byteLength: number,
  ): Promise<Uint8Array<ArrayBuffer>> {
    const bytes = new Uint8Array(byteLength);
    await this.driver.read(bytes, memory, byteOffset);
    return bytes;
  }

  run<Name extends OperationName>(name: Name, problem: OperationProblems<DeviceMemory>[Name]): void {
    const kernel = this.driver.kernels[name] as Kernel<OperationProblems<DeviceMemory>[Name]> | undefined;
    if (kernel === undefined) throw new Error(`no kernel for ${name}`);
    kernel.run(problem);
  }

  /** A region that holds these numbers, rounded to `dtype`, `byteOffset` bytes into memory of its own. */
  place(values: ArrayLike<number>, dtype: keyof Arrays, byteOffset = 0): BufferRegion {
    const bytes = encode(values, dtype);
    const memory = this.upload(noise(byteOffset + bytes.byteLength + 32));
    this.driver.write(memory, byteOffset, bytes);
    return { memory, byteOffset, byteLength: bytes.byteLength };
  }

  async numbers<Type extends keyof Arrays>(region: BufferRegion, dtype: Type): Promise<Arrays[Type]> {
    return decode(await this.download(region.memory, region.byteOffset, region.byteLength), dtype);
  }
}

/** Runs `body` once before the suite's tests with a device that is closed after them. */
export function withDevice(options: WebGpuOptions = {}): () => TestDevice {
  let device: TestDevice | undefined;
  before(async () => {
    device = await TestDevice.open(options);
  });
  after(async () => {
    await device?.close();
  });
  return () => device!;
}

/** The elements of each type, as numbers. */
export interface Arrays {
  readonly f32: Float32Array;
  readonly f16: Float32Array;
  readonly i32: Int32Array;
  readonly u32: Uint32Array;
  readonly u8: Uint8Array;
}

type Codecs = {
  readonly [Type in keyof Arrays]: {
    readonly encode: (values: ArrayLike<number>) => { readonly buffer: ArrayBuffer };
    readonly decode: (bytes: ArrayBuffer) => Arrays[Type];
  };
};

const codecs: Codecs = {
  f32: { encode: (values) => Float32Array.from(values), decode: (bytes) => new Float32Array(bytes) },
  f16: { encode: encodeFloat16, decode: (bytes) => decodeFloat16(new Uint16Array(bytes)) },
  i32: { encode: (values) => Int32Array.from(values), decode: (bytes) => new Int32Array(bytes) },
  u32: { encode: (values) => Uint32Array.from(values), decode: (bytes) => new Uint32Array(bytes) },
  u8: { encode: (values) => Uint8Array.from(values), decode: (bytes) => new Uint8Array(bytes) },
};

interface Floats {
  /** Bits of the significand after the first, and the least exponent of normal numbers. */
  readonly digits: number;
  readonly smallest: number;
  /** Units in the last place that a result in f32 may lose when it is rounded to the type. */
  readonly loss: number;
}

const floats: Readonly<Record<FloatType, Floats>> = {
  f32: { digits: 23, smallest: -126, loss: 0 },
  f16: { digits: 10, smallest: -14, loss: 0.5001 },
};

export function encode(values: ArrayLike<number>, dtype: keyof Arrays): Uint8Array<ArrayBuffer> {
  return new Uint8Array(codecs[dtype].encode(values).buffer);
}

export function decode<Type extends keyof Arrays>(bytes: Uint8Array, dtype: Type): Arrays[Type] {
  return codecs[dtype].decode(bytes.slice().buffer);
}

/** The numbers as the device gets them. */
export function rounded(values: ArrayLike<number>, dtype: FloatType): Float32Array {
  return decode(encode(values, dtype), dtype);
}

/** Repeatable numbers from 0 to 1 (mulberry32). */
export function random(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Bytes that no test expects to find by accident. */
export function noise(length: number, seed = length): Uint8Array<ArrayBuffer> {
  const next = random(seed);
  return Uint8Array.from({ length }, () => Math.floor(next() * 256));
}

/** The spacing of numbers of this type around `value`; subnormal results may be flushed. */
export function spacing(value: number, dtype: FloatType): number {
  const { digits, smallest } = floats[dtype];
  const exponent = value === 0 ? smallest : Math.max(Math.floor(Math.log2(Math.abs(value))), smallest);
  return 2 ** (exponent - digits);
}

/** What rounding a result in f32 to this type may add to its error. */
export function lastRounding(value: number, dtype: FloatType): number {
  return floats[dtype].loss * spacing(value, dtype);
}

/**
 * What a process wrote to standard error, without the lines in which Dawn reports limits of an adapter
 * that are higher than it can use (lavapipe's are); it writes them before any device is opened.
 */
export function withoutLimits(stderr: string): string {
  return stderr.replaceAll(/^Warning: max\w+ artificially reduced from .*\n/gm, "");
}

export { dtypeBytes };
