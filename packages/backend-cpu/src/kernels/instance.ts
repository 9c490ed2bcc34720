// Part of the worker's script, so it may import nothing by package name: import maps of pages do not
// apply in workers.

export type KernelFunction = (block: number, chunk: number, scratch: number, worker: number) => void;

/** The functions of a compiled module on a memory, in the order of `names`. */
export function instantiateKernels(
  module: WebAssembly.Module,
  names: readonly string[],
  memory: WebAssembly.Memory,
): readonly KernelFunction[] {
  const { exports } = new WebAssembly.Instance(module, { env: { memory } });
  return names.map((name) => exports[name] as unknown as KernelFunction);
}
