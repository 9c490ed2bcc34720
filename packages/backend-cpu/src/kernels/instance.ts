// Part of the worker's script, so it may import nothing by package name: import maps of pages do not
// apply in workers.
import type { BlasLibrary } from "../native/blas.js";
import type { KernelFunction, NativeKernels } from "../native/functions.js";

/** What the functions of kernels are called that `KernelCode.names` does not have. */
export const lateExport = "late";

/** The part of a `KernelLibrary` that every thread has: enough to find its kernels, including later ones. */
export interface KernelCode {
  /** Commands in the queue carry the index into this list, or one behind it: of a kernel that was added later. */
  readonly names: readonly string[];
  /**
   * For each kernel two words of 32 bits, the place of its module in here and its length, in bytes; then the
   * modules. Both are written before the first command that names the kernel, and never changed.
   */
  readonly modules: ArrayBufferLike;
  /** The library that some of the kernels call. Undefined: there is none. */
  readonly blas: BlasLibrary | undefined;
}

/** The kernels of a library as functions on a memory, each made when it is first wanted. */
export class KernelInstances {
  readonly #code: KernelCode;
  readonly #memory: WebAssembly.Memory;
  readonly #functions: (KernelFunction | undefined)[];
  /** By the place of their modules. */
  readonly #instances = new Map<number, WebAssembly.Exports>();

  constructor(code: KernelCode, memory: WebAssembly.Memory, native: NativeKernels) {
    this.#code = code;
    this.#memory = memory;
    this.#functions = code.names.map((name) => native[name]);
  }

  /** `index`: of a kernel whose module is there, see `KernelLibrary.index`. */
  get(index: number): KernelFunction {
    return this.#functions[index] ?? this.#make(index);
  }

  #make(index: number): KernelFunction {
    const { modules, names } = this.#code;
    const [at, length] = new Uint32Array(modules, 8 * index, 2) as unknown as readonly [number, number];
    let exports = this.#instances.get(at);
    if (exports === undefined) {
      // Engines do not compile shared memory: they get a copy.
      const bytes = new Uint8Array(new Uint8Array(modules, at, length));
      exports = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory: this.#memory } })
        .exports;
      this.#instances.set(at, exports);
    }
    const kernel = exports[names[index] ?? lateExport] as unknown as KernelFunction;
    this.#functions[index] = kernel;
    return kernel;
  }
}
