import { float32ToBits } from "@backplane/core";
import { instantiateKernels } from "../instance.js";
import type { KernelModule } from "../module.js";
import { gemmKernelsOf } from "./gemm.js";
import { blocking, type GemmVariant } from "./variants.js";

/** How fast the innermost loops of a variant are here, from operands in the first-level cache. */
export interface TimedVariant {
  readonly variant: GemmVariant;
  readonly gigaflops: number;
}

/** Engines start with slow code and replace it within a millisecond or so: the best window counts. */
const windows = 4;
const windowMilliseconds = 0.5;
const callsBetweenLooks = 4;
/** A variant must be faster than those before it by this factor: less may be chance. */
const clearly = 1.1;

/** Addresses in a memory of one page. */
const places = { a: 1024, b: 16384, c: 32768, scratch: 49152 } as const;
const columns = 16;

/** Runs the variants in turns, for 2 ms each. */
export function timeGemmVariants(
  kernels: KernelModule,
  shared: boolean,
  variants: readonly GemmVariant[],
): readonly TimedVariant[] {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1, shared });
  const functions = instantiateKernels(kernels.module, kernels.names, memory);
  const block = new Uint32Array(memory.buffer);
  const best = new Map<GemmVariant, number>(variants.map((variant) => [variant, 0]));
  for (let window = 0; window < windows; window++) {
    for (const variant of variants) {
      const rows = 2 * variant.tile.rows;
      const { multiply } = gemmKernelsOf(variant).f32;
      const launch = multiply.launch(
        {
          ...{ a: places.a, b: places.b, c: places.c, aBatch: 0, bBatch: 0, cBatch: 0 },
          ...{ m: rows, n: columns, k: blocking.k, stride: 4 * columns },
          ...{ alpha: float32ToBits(1), beta: float32ToBits(0) },
          ...{ chunkRows: rows, chunkColumns: columns, rowChunks: 1, columnChunks: 1 },
        },
        1,
      );
      block.set(launch.words);
      const kernel = functions[kernels.names.indexOf(launch.kernel)]!;
      const start = performance.now();
      let calls = 0;
      let elapsed = 0;
      while (elapsed < windowMilliseconds) {
        for (let i = 0; i < callsBetweenLooks; i++) kernel(0, 0, places.scratch, 0);
        calls += callsBetweenLooks;
        elapsed = performance.now() - start;
      }
      const gigaflops = (2 * rows * columns * blocking.k * calls) / elapsed / 1e6;
      best.set(variant, Math.max(best.get(variant)!, gigaflops));
    }
  }
  return variants.map((variant) => ({ variant, gigaflops: best.get(variant)! }));
}

/** The first variant, or a later one that is clearly faster than all before it. */
export function fastest(timed: readonly TimedVariant[]): GemmVariant {
  return timed.reduce((best, next) => (next.gigaflops > clearly * best.gigaflops ? next : best)).variant;
}
