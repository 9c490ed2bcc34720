import { BackendError } from "@backplane/core";
import { type MemoryImport, ModuleBuilder } from "../wasm/index.js";
import type { AnyKernel, Features } from "./kernel.js";

/** One compiled module with the kernels that this engine can run. */
export interface KernelModule {
  readonly module: WebAssembly.Module;
  /** Names of the exported functions; commands in the queue carry the index into this list. */
  readonly names: readonly string[];
}

const runsHere = (kernel: AnyKernel, features: Features) =>
  kernel.requires === undefined || features[kernel.requires];

/** The largest scratch that any of the kernels asks for that this engine can run, in bytes. */
export function largestScratch(kernels: readonly AnyKernel[], features: Features): number {
  return Math.max(
    0,
    ...kernels.filter((kernel) => runsHere(kernel, features)).map(({ scratchBytes }) => scratchBytes),
  );
}

export async function compileKernels(
  kernels: Iterable<AnyKernel>,
  memory: MemoryImport,
  features: Features,
): Promise<KernelModule> {
  const builder = new ModuleBuilder(memory, features);
  const names: string[] = [];
  for (const kernel of new Set(kernels)) {
    if (!runsHere(kernel, features)) continue;
    if (names.includes(kernel.name)) throw new TypeError(`two kernels are called ${kernel.name}`);
    kernel.emit(builder, features);
    names.push(kernel.name);
  }
  try {
    const module = await WebAssembly.compile(builder.toBytes());
    return { module, names };
  } catch (error) {
    throw new BackendError("UNSUPPORTED", `init: the kernels do not compile here: ${String(error)}`, {
      operation: "init",
      cause: error,
    });
  }
}
