// Part of the worker's script, so it may import nothing by package name: import maps of pages do not
// apply in workers.
import type { KernelModule } from "./module.js";

export type KernelFunction = (block: number, chunk: number, scratch: number, worker: number) => void;

/** Kernels that are no WebAssembly, by name. */
export type NativeKernels = Readonly<Record<string, KernelFunction>>;

/** The functions of a compiled module on a memory, and native ones, in the order of `names`. */
export function instantiateKernels(
  { module, names }: KernelModule,
  memory: WebAssembly.Memory,
  native: NativeKernels,
): readonly KernelFunction[] {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return names.map((name) => native[name] ?? (exports[name] as unknown as KernelFunction));
}
