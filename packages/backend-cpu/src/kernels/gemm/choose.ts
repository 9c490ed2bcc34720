import type { KernelFunction } from "../../native/functions.js";
import { KernelInstances } from "../instance.js";
import { defineKernel, type Features, type Kernel } from "../kernel.js";
import { KernelLibrary } from "../library.js";
import { type Tile, tileFunction } from "./tile.js";
import type { GemmVariant } from "./variants.js";

/** How fast the innermost loops of a variant are here, from operands in the first-level cache. */
export interface TimedVariant {
  readonly variant: GemmVariant;
  readonly gigaflops: number;
}

/**
 * Engines start with slow code and replace it, one function at a time, on another thread. So the best window
 * counts, and rounds go on until no variant has become faster for some of them. If another variant than the
 * first is then ahead, the fast code of the first may be late, and the rounds go on for longer.
 */
const windowMilliseconds = 0.2;
const pauseMilliseconds = 1;
const steadyRounds = 4;
const mostRounds = 16;
const mostDoubtfulRounds = 32;
const callsBetweenLooks = 16;
/** A variant must be faster than the best before it by this factor: less may be chance ... */
const clearly = 1.1;
/** ... and not by more than this: longer vectors can make it twice as fast, so the other was still slow code. */
const credible = 2.4;

/** The operands of a tile of any variant, in a memory of one page: 256 of k. */
const operands = { a: 1024, b: 16384, k: 256, c: 49152, stride: 64, alpha: 0x3f800000, beta: 0 } as const;

const probes = new Map<string, Kernel<Record<string, never>>>();

/** Computes one tile, always the same, by the functions that the variant's products call. One kernel for each variant. */
export function probeKernel({ name, tile, requires }: GemmVariant): Kernel<Record<string, never>> {
  const known = probes.get(name);
  if (known !== undefined) return known;
  const probe = defineKernel({
    ...(requires === undefined ? {} : { requires }),
    name: `gemm_probe_${name}`,
    parameters: {},
    emit(f, { module }) {
      const { a, b, k, c, stride, alpha, beta } = operands;
      f.call(tileFunction(module, tile), a, b, k, c, stride, alpha, beta);
    },
  });
  probes.set(name, probe);
  return probe;
}

/** The probe of a variant in a module of its own. */
export function loneProbe(variant: GemmVariant, features: Features): KernelFunction {
  const kernel = probeKernel(variant);
  const library = new KernelLibrary([kernel], { initialPages: 1, maximumPages: 1, shared: false }, features);
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  return new KernelInstances(library.code, memory, {}).get(library.index(kernel.name));
}

/**
 * Runs the probes of the variants in turns, if there are several. Takes some 10 ms, most of which it waits.
 * Functions that engines have replaced by fast code by then are fast in every kernel of a probe's module.
 * `now` returns milliseconds since some fixed time.
 */
export async function timeGemmVariants(
  probes: readonly { readonly variant: GemmVariant; readonly run: KernelFunction }[],
  now: () => number = () => performance.now(),
): Promise<readonly TimedVariant[]> {
  const timed = probes.map(({ variant }) => ({ variant, gigaflops: 0 }));
  if (timed.length === 1) return timed;
  const goesOn = (round: number, steady: number): boolean =>
    fastest(timed) === timed[0]!.variant
      ? round < mostRounds && steady < steadyRounds
      : round < mostDoubtfulRounds;
  let steady = 0;
  for (let round = 0; goesOn(round, steady); round++) {
    steady++;
    for (const [i, { variant, run }] of probes.entries()) {
      const gigaflops = timeOnce(variant.tile, run, now);
      if (gigaflops > clearly * timed[i]!.gigaflops) steady = 0;
      timed[i]!.gigaflops = Math.max(timed[i]!.gigaflops, gigaflops);
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMilliseconds));
  }
  return timed;
}

/** Runs one variant for a moment. Returns its GFLOP/s. */
function timeOnce({ rows, columns }: Tile, run: KernelFunction, now: () => number): number {
  const start = now();
  let calls = 0;
  let elapsed = 0;
  while (elapsed < windowMilliseconds) {
    for (let i = 0; i < callsBetweenLooks; i++) run(0, 0, 0, 0);
    calls += callsBetweenLooks;
    elapsed = now() - start;
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
