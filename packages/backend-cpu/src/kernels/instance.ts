// Part of the worker's script, so it may import nothing by package name: import maps of pages do not
// apply in workers.
import { sgemmKernel, sgemmName } from "./gemm/blas.native.js";
import type { KernelModule } from "./module.js";

export type KernelFunction = (block: number, chunk: number, scratch: number, worker: number) => void;

/** The functions of a compiled module on a memory, and of a native library, in the order of `names`. */
export function instantiateKernels(
  { module, names, blas }: KernelModule,
  memory: WebAssembly.Memory,
): readonly KernelFunction[] {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return names.map((name) =>
    blas !== undefined && name === sgemmName
      ? sgemmKernel(blas, memory)
      : (exports[name] as unknown as KernelFunction),
  );
}
