import { type KernelFunction, KernelInstances } from "../instance.js";
import { type AnyKernel, defineKernel, type Features } from "../kernel.js";
import { KernelLibrary } from "../library.js";
import { type Tile, tileFunction } from "./tile.js";
import type { GemmVariant } from "./variants.js";

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
const callsBetweenLooks = 16;
/** A variant must be faster than the best before it by this factor: less may be chance ... */
const clearly = 1.1;
/** ... and not by more than this: twice is what longer vectors can give, so the other was still slow code. */
const credible = 2.4;

/** What a tile of any variant is computed from, in a memory of one page: 256 of k. */
const operands = { a: 1024, b: 16384, k: 256, c: 49152, stride: 64, alpha: 0x3f800000, beta: 0 } as const;

/**
 * Runs the innermost loops of the variants in turns, if there are several. Takes some 10 ms then, most of
 * which it waits.
 */
export async function timeGemmVariants(
  variants: readonly GemmVariant[],
  features: Features,
): Promise<readonly TimedVariant[]> {
  if (variants.length === 1) return variants.map((variant) => ({ variant, gigaflops: 0 }));
  const kernels = variants.map(tileKernel);
  const library = new KernelLibrary(kernels, { initialPages: 1, maximumPages: 1, shared: false }, features);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const instances = new KernelInstances(library.code, memory, {});
  const runs = kernels.map(({ name }) => instances.get(library.index(name)));
  const best = variants.map(() => 0);
  let steady = 0;
  for (let round = 0; round < mostRounds && steady < steadyRounds; round++) {
    steady++;
    for (const [i, { tile }] of variants.entries()) {
      const gigaflops = timeOnce(tile, runs[i]!);
      if (gigaflops > clearly * best[i]!) steady = 0;
      best[i] = Math.max(best[i]!, gigaflops);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMilliseconds));
  }
  return variants.map((variant, i) => ({ variant, gigaflops: best[i]! }));
}

/** Computes one tile, always the same. */
function tileKernel(variant: GemmVariant): AnyKernel {
  return defineKernel({
    name: `gemm_tile_${variant.name}`,
    parameters: {},
    emit(f, { module }) {
      const { a, b, k, c, stride, alpha, beta } = operands;
      f.call(tileFunction(module, variant.tile), a, b, k, c, stride, alpha, beta);
    },
  });
}

/** Runs one variant for a moment; answers its GFLOP/s. */
function timeOnce({ rows, columns }: Tile, run: KernelFunction): number {
  const start = performance.now();
  let calls = 0;
  let elapsed = 0;
  while (elapsed < windowMilliseconds) {
    for (let i = 0; i < callsBetweenLooks; i++) run(0, 0, 0, 0);
    calls += callsBetweenLooks;
    elapsed = performance.now() - start;
  }
  return (2 * rows * columns * operands.k * calls) / elapsed / 1e6;
}

/** The first variant, or a later one that is clearly, and credibly, faster than the best before it. */
export function fastest(timed: readonly TimedVariant[]): GemmVariant {
  return timed.reduce((best, next) => {
    const gain = next.gigaflops / best.gigaflops;
    return gain > clearly && gain < credible ? next : best;
  }).variant;
}
