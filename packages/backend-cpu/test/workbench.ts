import type { Region } from "@backplane/core";
import { detectFeatures } from "#src/features.js";
import { nativeProducts } from "#src/kernels/gemm/blas.js";
import { KernelInstances } from "#src/kernels/instance.js";
import {
  type CpuMemory,
  type Features,
  type KernelGroup,
  type Launch,
  type PlanContext,
  readSlackBytes,
} from "#src/kernels/kernel.js";
import { KernelLibrary } from "#src/kernels/library.js";
import type { BlasLibrary } from "#src/native/blas.js";
import { nativeKernels } from "#src/native/sgemm.js";

/**
 * A memory and some kernels without driver or queue, for tests of single kernels. Chunks run from
 * the last to the first, with scratch full of NaNs: a kernel may rely on neither.
 */
export class Workbench {
  readonly memory: WebAssembly.Memory;
  readonly #kernels: KernelLibrary;
  readonly #instances: KernelInstances;
  readonly context: PlanContext;
  readonly #scratch: Region<CpuMemory>;
  #next = 1024;

  private constructor(
    memory: WebAssembly.Memory,
    kernels: KernelLibrary,
    features: Features,
    workers: number,
  ) {
    this.memory = memory;
    const { code, largestScratch } = kernels;
    this.#kernels = kernels;
    this.#instances = new KernelInstances(code, memory, nativeKernels(code.blas, memory));
    this.#scratch = this.alloc(largestScratch);
    this.context = {
      features,
      nativeProducts,
      workers,
      workspace: (bytes) => this.alloc(bytes).memory.byteOffset,
      late: kernels.late.bind(kernels),
    };
  }

  /** `features` default to what the engine has; `workers` is what plans are told. */
  static async create(
    kernels: Iterable<KernelGroup>,
    options: {
      readonly relaxedSimd?: boolean;
      readonly fewRegisters?: boolean;
      readonly pages?: number;
      readonly workers?: number;
      readonly blas?: BlasLibrary;
    } = {},
  ): Promise<Workbench> {
    const pages = options.pages ?? 256;
    const { relaxedSimd = false, fewRegisters = false, blas } = options;
    const features = { relaxedSimd, fewRegisters, blas: blas !== undefined };
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages });
    const limits = { initialPages: pages, maximumPages: pages, shared: false };
    const library = new KernelLibrary(kernels, limits, features, options.blas);
    return new Workbench(memory, library, features, options.workers ?? 1);
  }

  /** A region of `bytes` bytes, poisoned with 0xff (NaN in every format) around and inside. */
  alloc(bytes: number): Region<CpuMemory> {
    const byteOffset = this.#next;
    this.#next = Math.ceil((byteOffset + bytes + readSlackBytes) / 64) * 64;
    if (this.#next > this.memory.buffer.byteLength) throw new RangeError("the test memory is full");
    new Uint8Array(this.memory.buffer, byteOffset, this.#next - byteOffset).fill(0xff);
    return { memory: { byteOffset, byteLength: bytes }, byteOffset: 0, byteLength: bytes };
  }

  /** Copies the elements of a typed array to a region of their own. */
  upload(array: Float32Array | Uint16Array | Uint8Array): Region<CpuMemory> {
    const region = this.alloc(array.byteLength);
    const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    new Uint8Array(this.memory.buffer).set(bytes, region.memory.byteOffset);
    return region;
  }

  #bytes(region: Region<CpuMemory>): ArrayBuffer {
    const start = region.memory.byteOffset + region.byteOffset;
    return this.memory.buffer.slice(start, start + region.byteLength);
  }

  float32(region: Region<CpuMemory>): Float32Array {
    return new Float32Array(this.#bytes(region));
  }

  /** The bits of f16 elements. */
  uint16(region: Region<CpuMemory>): Uint16Array {
    return new Uint16Array(this.#bytes(region));
  }

  bytes(region: Region<CpuMemory>): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.#bytes(region));
  }

  run(launches: readonly Launch[]): void {
    const block = 0;
    const { byteOffset: scratch, byteLength } = this.#scratch.memory;
    new Uint8Array(this.memory.buffer, scratch, byteLength).fill(0xff);
    for (const launch of launches) {
      const kernel = this.#instances.get(this.#kernels.index(launch.kernel));
      new Uint32Array(this.memory.buffer, block, launch.words.length).set(launch.words);
      for (let chunk = launch.chunks - 1; chunk >= 0; chunk--) {
        kernel(block, chunk, scratch, chunk % this.context.workers);
      }
    }
  }
}

export interface EngineOptions {
  readonly relaxedSimd: boolean;
  readonly fewRegisters?: boolean;
}

/** Declares the same tests without relaxed SIMD and, where the engine has it, with it. */
export function describeEitherWay(title: string, body: (options: EngineOptions) => void): void {
  describe(`${title} without relaxed SIMD`, () => body({ relaxedSimd: false }));
  const declare = detectFeatures().relaxedSimd ? describe : describe.skip;
  declare(`${title} with relaxed SIMD`, () => body({ relaxedSimd: true }));
}

/** The same, and with the tiles for few registers, too. */
export function describeEachTile(title: string, body: (options: EngineOptions) => void): void {
  describeEitherWay(title, body);
  const declare = detectFeatures().relaxedSimd ? describe : describe.skip;
  declare(`${title} with relaxed SIMD and few registers`, () =>
    body({ relaxedSimd: true, fewRegisters: true }),
  );
}
