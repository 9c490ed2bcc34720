import { type BlasLibrary, sgemmName } from "../native/blas.js";
import { type MemoryImport, ModuleBuilder } from "../wasm/index.js";
import type { KernelCode } from "./instance.js";
import type { AnyKernel, Features, KernelGroup } from "./kernel.js";

/**
 * Room for all modules: several times the size of all kernels of this package (a test emits them all). Bytes
 * that are never written cost nothing.
 */
const moduleBytes = 1 << 20;

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
  readonly #indices: ReadonlyMap<string, number>;
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
    this.#end = 8 * names.length;
    const bytes = this.#end + moduleBytes;
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

  #emit(group: readonly AnyKernel[]): void {
    const builder = new ModuleBuilder(this.#memory, this.#features);
    for (const kernel of group) kernel.emit(builder, this.#features);
    const bytes = builder.toBytes();
    const { modules } = this.code;
    // Throws if it does not fit.
    new Uint8Array(modules).set(bytes, this.#end);
    const directory = new Uint32Array(modules, 0, 2 * this.code.names.length);
    for (const { name } of group) {
      const index = this.#indices.get(name)!;
      directory.set([this.#end, bytes.length], 2 * index);
      this.#groups[index] = undefined;
    }
    this.#end += bytes.length;
  }
}
