import { BackendError } from "@backplane/core";
import type { BlasLibrary } from "../native/blas.js";
import { sgemmName } from "../native/sgemm-types.js";
import { type MemoryImport, ModuleBuilder } from "../wasm/index.js";
import type { KernelCode } from "./instance.js";
import type { AnyKernel, Features, KernelGroup } from "./kernel.js";

/**
 * Room for all modules: several times the size of all kernels of this package (a test emits them all). Bytes
 * that are never written cost nothing.
 */
const moduleBytes = 1 << 22;

/** Kernels that are made for single problems: how many there may be, and the room for their modules. */
const lateKernels = 4096;
const lateBytes = 1 << 26;

/**
 * The kernels that an engine can run. Each is emitted, with its group, at its first use, into memory that
 * threads share; a worker that meets a kernel for the first time compiles it from there. So the start of a
 * backend does not pay for kernels that it may never use.
 */
export class KernelLibrary {
  readonly code: KernelCode;
  /** The largest scratch that any of the kernels asks for, in bytes. */
  readonly largestScratch: number;
  readonly #memory: MemoryImport;
  readonly #features: Features;
  readonly #indices: Map<string, number>;
  #late = 0;
  /** Of each kernel that is still to be emitted. */
  readonly #groups: (readonly AnyKernel[] | undefined)[];
  /** The end of the modules so far. */
  #end: number;

  constructor(groups: Iterable<KernelGroup>, memory: MemoryImport, features: Features, blas?: BlasLibrary) {
    const known = new Map<string, AnyKernel>();
    this.#groups = [];
    for (const group of groups) {
      const kernels = [group].flat().filter(({ requires }) => requires === undefined || features[requires]);
      const added = kernels.filter((kernel) => known.get(kernel.name) !== kernel);
      for (const kernel of added) {
        if (known.has(kernel.name)) throw new TypeError(`two kernels are called ${kernel.name}`);
        known.set(kernel.name, kernel);
        this.#groups.push(added);
      }
    }
    const names = [...known.keys()];
    if (blas !== undefined) names.push(sgemmName);
    this.#end = 8 * (names.length + lateKernels);
    const bytes = this.#end + moduleBytes + lateBytes;
    const modules = memory.shared ? new SharedArrayBuffer(bytes) : new ArrayBuffer(bytes);
    this.code = { names, modules, blas };
    this.largestScratch = Math.max(0, ...[...known.values()].map(({ scratchBytes }) => scratchBytes));
    this.#indices = new Map(names.map((name, index) => [name, index]));
    this.#memory = memory;
    this.#features = features;
  }

  /**
   * Returns the index of a kernel in `code.names`; from now on it can be run. Throws if there is none of this name.
   */
  index(name: string): number {
    const index = this.#indices.get(name);
    if (index === undefined) throw new TypeError(`no kernel is called ${name}`);
    const group = this.#groups[index];
    if (group !== undefined) this.#emit(group);
    return index;
  }

  /**
   * Adds a kernel that the list of groups does not have, unless there is one of this name. It is called as the others
   * are. `make` emits a function called `lateExport`, with scratch of at most `largestScratch`.
   */
  late(name: string, make: (module: ModuleBuilder, features: Features) => void): void {
    if (this.#indices.has(name)) return;
    const builder = new ModuleBuilder(this.#memory, this.#features);
    make(builder, this.#features);
    const bytes = builder.toBytes();
    if (this.#late === lateKernels || this.#end + bytes.length > this.code.modules.byteLength)
      throw new BackendError(
        "OUT_OF_MEMORY",
        `there is no room for one more kernel: there are ${this.#late} of single expressions; numbers that change from ` +
          "call to call should be parameters, not constants",
      );
    const index = this.code.names.length + this.#late++;
    this.#place(bytes, [index]);
    this.#indices.set(name, index);
  }

  #emit(group: readonly AnyKernel[]): void {
    const builder = new ModuleBuilder(this.#memory, this.#features);
    for (const kernel of group) kernel.emit(builder, this.#features);
    const indices = group.map(({ name }) => this.#indices.get(name)!);
    this.#place(builder.toBytes(), indices);
    for (const index of indices) this.#groups[index] = undefined;
  }

  /** Puts a module behind the others. */
  #place(bytes: Uint8Array, indices: readonly number[]): void {
    const { modules } = this.code;
    // Throws if it does not fit.
    new Uint8Array(modules).set(bytes, this.#end);
    const directory = new Uint32Array(modules, 0, 2 * (this.code.names.length + lateKernels));
    for (const index of indices) directory.set([this.#end, bytes.length], 2 * index);
    this.#end += bytes.length;
  }
}
