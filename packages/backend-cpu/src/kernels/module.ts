import { BackendError } from "@backplane/core";
import type { BlasLibrary } from "../native/blas.js";
import { type MemoryImport, ModuleBuilder } from "../wasm/index.js";
import { sgemmName } from "./gemm/blas.native.js";
import type { AnyKernel, Features } from "./kernel.js";

/** One compiled module with the kernels that this engine can run, and what a native library adds. */
export interface KernelModule {
  readonly module: WebAssembly.Module;
  /** Names of the functions that `instantiateKernels` gives; commands in the queue carry the index into this list. */
  readonly names: readonly string[];
  /** The largest scratch that any of them asks for. */
  readonly scratchBytes: number;
  /** Undefined: there is none. */
  readonly blas: BlasLibrary | undefined;
}

export async function compileKernels(
  kernels: Iterable<AnyKernel>,
  memory: MemoryImport,
  features: Features,
  blas?: BlasLibrary,
): Promise<KernelModule> {
  const builder = new ModuleBuilder(memory);
  const names: string[] = [];
  let scratchBytes = 0;
  for (const kernel of new Set(kernels)) {
    if (kernel.requires !== undefined && !features[kernel.requires]) continue;
    if (names.includes(kernel.name)) throw new TypeError(`two kernels are called ${kernel.name}`);
    kernel.emit(builder, features);
    names.push(kernel.name);
    scratchBytes = Math.max(scratchBytes, kernel.scratchBytes);
  }
  if (blas !== undefined) names.push(sgemmName);
  try {
    const module = await WebAssembly.compile(builder.toBytes());
    return { module, names, scratchBytes, blas };
  } catch (error) {
    throw new BackendError("UNSUPPORTED", `init: the kernels do not compile here: ${String(error)}`, {
      operation: "init",
      cause: error,
    });
  }
}
