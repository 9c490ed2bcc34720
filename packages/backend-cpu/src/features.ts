import type { Features } from "./kernels/kernel.js";
import { nodeProcess } from "./node-process.js";
import { f32x4, ModuleBuilder } from "./wasm/index.js";

/** The features of the engine, found by asking it to validate a function that needs them. */
export interface EngineFeatures extends Features {
  /** Fixed-width SIMD; the backend cannot work without it. */
  readonly simd: boolean;
  /** Memory that workers can share. */
  readonly sharedMemory: boolean;
  /** Why `sharedMemory` is false. */
  readonly whyNotShared: string | undefined;
}

let detected: EngineFeatures | undefined;

export function detectFeatures(): EngineFeatures {
  detected ??= detect();
  return detected;
}

function detect(): EngineFeatures {
  if (typeof WebAssembly !== "object")
    return { simd: false, relaxedSimd: false, sharedMemory: false, whyNotShared: "there is no WebAssembly" };
  const simd = validates((a) => f32x4.add(a, a));
  const relaxedSimd = validates((a) => f32x4.relaxedMadd(a, a, a));
  const whyNotShared = reasonAgainstSharing();
  const sharedMemory = whyNotShared === undefined;
  return { simd, relaxedSimd, fewRegisters: keepsFewRegisters(), sharedMemory, whyNotShared };
}

type VectorExpression = ReturnType<typeof f32x4.const>;

function validates(expression: (a: VectorExpression) => VectorExpression): boolean {
  const builder = new ModuleBuilder({ initialPages: 1, maximumPages: 1, shared: false });
  builder.function("probe", {}, (f) => {
    f.let(expression(f32x4.const(1)));
  });
  return WebAssembly.validate(builder.toBytes());
}

/**
 * Whether V8 keeps only few vectors in registers. The V8 of Node.js 22 and 23 (12.x) spills half of a tile
 * with six rows; that of 24 (13.6) does not. Four rows instead of six make convolutions 1.8 to 1.9, products
 * 1.3 and attention 1.25 times as fast there (AMD Zen 4), and 5% slower elsewhere. Pages cannot tell the
 * version, and have newer ones.
 */
function keepsFewRegisters(): boolean {
  return Number.parseInt(nodeProcess?.versions.v8 ?? "13", 10) < 13;
}

function reasonAgainstSharing(): string | undefined {
  if (typeof SharedArrayBuffer !== "function")
    return "SharedArrayBuffer is missing (a page needs cross-origin isolation)";
  if (nodeProcess === undefined && typeof Worker !== "function") return "Worker is missing";
  const builder = new ModuleBuilder({ initialPages: 1, maximumPages: 1, shared: true });
  return WebAssembly.validate(builder.toBytes()) ? undefined : "WebAssembly lacks shared memory";
}

/** Whether the calling thread may wait for others. The main thread of a page may not. */
export function mayBlock(): boolean {
  try {
    // The word has another value, so that this returns at once if waiting is allowed.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 1);
    return true;
  } catch {
    return false;
  }
}

/** The number of threads that the machine runs at the same time, as far as it tells. */
export function availableThreads(): number {
  const os = nodeProcess?.getBuiltinModule("node:os");
  const threads = os?.availableParallelism() ?? globalThis.navigator?.hardwareConcurrency ?? 1;
  return Math.max(1, threads);
}

/** The name of the processor, if it is known and may be asked for. */
export function processorName(): string | undefined {
  try {
    return nodeProcess?.getBuiltinModule("node:os").cpus()[0]?.model.trim();
  } catch {
    // Deno asks the user for permission; a name is not worth that.
    return undefined;
  }
}
