import { float32ToBits } from "@backplane/core";
import { noEpilogue } from "../epilogue.js";
import { instantiateKernels, type KernelFunction } from "../instance.js";
import type { KernelModule } from "../module.js";
import { gemmKernelsOf } from "./gemm.js";
import { blocking, type GemmVariant } from "./variants.js";

/** How fast the innermost loops of a variant are here, from operands in the first-level cache. */
export interface TimedVariant {
  readonly variant: GemmVariant;
  readonly gigaflops: number;
}

/**
 * Engines start with slow code and replace it, one function at a time, on another thread: the best
 * window counts, and rounds go on until no variant has become faster for some of them.
 */
const windowMilliseconds = 0.2;
const pauseMilliseconds = 1;
const steadyRounds = 4;
const mostRounds = 16;
const callsBetweenLooks = 4;
/** A variant must be faster than the best before it by this factor: less may be chance ... */
const clearly = 1.1;
/** ... and not by more than this: twice is what longer vectors can give, so the other was still slow code. */
const credible = 2.4;

/** Addresses in a memory of one page. */
const places = { a: 1024, b: 16384, c: 32768, scratch: 49152 } as const;
const columns = 16;

/**
 * Runs the variants in turns. Takes some 10 ms, most of which it waits.
 *
 * @param variants Two or more, which `kernels` has.
 */
export async function timeGemmVariants(
  kernels: KernelModule,
  shared: boolean,
  variants: readonly GemmVariant[],
): Promise<readonly TimedVariant[]> {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared });
  const functions = instantiateKernels(kernels.module, kernels.names, memory);
  const best = variants.map(() => 0);
  let steady = 0;
  for (let round = 0; round < mostRounds && steady < steadyRounds; round++) {
    steady++;
    for (const [i, variant] of variants.entries()) {
      const gigaflops = timeOnce(variant, kernels, functions, memory);
      if (gigaflops > clearly * best[i]!) steady = 0;
      best[i] = Math.max(best[i]!, gigaflops);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMilliseconds));
  }
  return variants.map((variant, i) => ({ variant, gigaflops: best[i]! }));
}

/** Runs one variant for a moment; answers its GFLOP/s. */
function timeOnce(
  variant: GemmVariant,
  kernels: KernelModule,
  functions: readonly KernelFunction[],
  memory: WebAssembly.Memory,
): number {
  const rows = 2 * variant.tile.rows;
  const launch = gemmKernelsOf(variant).f32.multiply.launch(
    {
      ...{ a: places.a, b: places.b, c: places.c, aBatch: 0, bBatch: 0, cBatch: 0 },
      ...{ m: rows, n: columns, k: blocking.k, stride: 4 * columns },
      ...{ alpha: float32ToBits(1), beta: float32ToBits(0) },
      ...{ chunkRows: rows, chunkColumns: columns, rowChunks: 1, columnChunks: 1 },
      ...noEpilogue,
    },
    1,
  );
  new Uint32Array(memory.buffer).set(launch.words);
  const kernel = functions[kernels.names.indexOf(launch.kernel)]!;
  const start = performance.now();
  let calls = 0;
  let elapsed = 0;
  while (elapsed < windowMilliseconds) {
    for (let i = 0; i < callsBetweenLooks; i++) kernel(0, 0, places.scratch, 0);
    calls += callsBetweenLooks;
    elapsed = performance.now() - start;
  }
  return (2 * rows * columns * blocking.k * calls) / elapsed / 1e6;
}

/** The first variant, or a later one that is clearly, and credibly, faster than the best before it. */
export function fastest(timed: readonly TimedVariant[]): GemmVariant {
  return timed.reduce((best, next) => {
    const gain = next.gigaflops / best.gigaflops;
    return gain > clearly && gain < credible ? next : best;
  }).variant;
}
