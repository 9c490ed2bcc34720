// Part of the worker's script.

/** A kernel on one thread: computes one chunk, by the parameter block at the address `block`. */
export type KernelFunction = (block: number, chunk: number, scratch: number, worker: number) => void;

/** Kernels that are no WebAssembly, by name. */
export type NativeKernels = Readonly<Record<string, KernelFunction>>;
