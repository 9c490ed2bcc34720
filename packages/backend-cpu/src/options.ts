import {
  Checks,
  checkNames,
  type TransformedConvolutions,
  transformedConvolutionNames,
} from "@backplane/core";
import { availableThreads } from "./features.js";
import { largestHeapBytes } from "./heap.js";
import type { OwnCpuKernel } from "./kernels/kernel.js";
import type { ForcedVariants, KernelSet } from "./kernels/set.js";
import type { BlasOption } from "./native/find-blas.js";
import type { CpuParts } from "./parts.js";

export interface CpuOptions {
  /**
   * Number of worker threads that run kernels. 0 runs kernels on the calling thread, inside the calls that
   * enqueue them. If memory cannot be shared, the backend always uses 0 and reports it in
   * `capabilities.device.details`. Default: one for each thread of the machine, at most 8.
   */
  readonly threads?: number;
  /**
   * Largest device memory in bytes, for everything together. Memory is taken as it is needed. Default: 4 GiB
   * less 64 KiB, which is all that 32-bit addresses reach, or as much of that as the engine can reserve.
   */
  readonly maxBytes?: number;
  /**
   * Whether to use relaxed SIMD (fused multiply-add). True fails if the engine lacks it. Default: "auto",
   * which uses it if the engine has it.
   */
  readonly relaxedSimd?: boolean | "auto";
  /**
   * A native library with the C interface of BLAS, for those gemm problems in f32 for which it is faster than
   * WebAssembly. Needs Node and npm `koffi`. A path (or a name that the system looks up) selects that
   * library, and `init` fails if it cannot be used. "auto" uses OpenBLAS, MKL or Accelerate if one is found.
   * `capabilities.device.details` names the library in use, or the reason why there is none. Default: false.
   */
  readonly blas?: BlasOption;
  /**
   * Kernels to use for every shape, by operation and name (see `variantNames`); for tests and comparisons. `init`
   * fails if the engine cannot run them. Default: the fastest of those that give the same bits, as timed by `init`.
   */
  readonly variants?: ForcedVariants;
  /**
   * Whether conv2d and conv2dInputGradient may compute convolutions in f32 with 3 x 3 filters by transforms, with fewer
   * multiplications: never, or for tiles of up to 2 x 2 or 4 x 4 outputs, where that is faster. Their error is bounded by
   * the largest numbers around an output: see `Numerics.transformedConvolutions`, which then has this value. Takes up to
   * 4 MiB of scratch memory, and up to 2 MiB for each thread. Default: never.
   */
  readonly transformedConvolutions?: TransformedConvolutions;
  /** Kernels for operations that core does not define; see `@backplane/backend-cpu/kernel`. Default: none. */
  readonly kernels?: readonly OwnCpuKernel[];
}

/** The names that `CpuOptions.variants` accepts, where a backend has these kernels. */
export type VariantNames = Readonly<Record<keyof ForcedVariants, readonly string[]>>;

export function variantNamesOf({ variants }: KernelSet): VariantNames {
  return Object.fromEntries(
    [...variants].map(([operation, { names }]) => [operation, names]),
  ) as unknown as VariantNames;
}

export interface ResolvedOptions {
  readonly threads: number;
  readonly maxBytes: number | undefined;
  readonly relaxedSimd: boolean | "auto";
  readonly variants: ForcedVariants;
  readonly blas: BlasOption;
  readonly transformedConvolutions: TransformedConvolutions;
  readonly kernels: readonly OwnCpuKernel[];
  readonly parts: CpuParts;
}

/** The least memory, in bytes, with which a backend can work. */
export const leastBytes: number = 4 << 20;
const optionNames = [
  ...(["threads", "maxBytes", "relaxedSimd", "blas", "variants"] as const),
  ...(["transformedConvolutions", "kernels"] as const),
];
const mostThreads = 64;
const defaultThreads = 8;

/** Fills in the defaults, for a backend of these parts. Throws `INVALID_ARGUMENT` for bad values and unknown names. */
export function resolveOptions(options: CpuOptions, parts: CpuParts): ResolvedOptions {
  checkNames("cpu", options, optionNames);
  const { relaxedSimd = "auto", variants = {}, maxBytes, blas = false, kernels = [] } = options;
  const { transformedConvolutions = "never" } = options;
  const threads = options.threads ?? Math.min(availableThreads(), defaultThreads);
  if (!Number.isSafeInteger(threads) || threads < 0 || threads > mostThreads)
    fail("threads", threads, `a whole number from 0 to ${mostThreads}`);
  const bytes = maxBytes ?? largestHeapBytes;
  if (!Number.isSafeInteger(bytes) || bytes < leastBytes || bytes > largestHeapBytes)
    fail("maxBytes", maxBytes, `a whole number from ${leastBytes} to ${largestHeapBytes}`);
  if (relaxedSimd !== "auto" && typeof relaxedSimd !== "boolean")
    fail("relaxedSimd", relaxedSimd, 'true, false or "auto"');
  if (blas !== false && (typeof blas !== "string" || blas === ""))
    fail("blas", blas, '"auto", the path of a library, or false');
  if (blas !== false && parts.native === undefined)
    fail("blas", blas, "false: only the entry with all kernels has native libraries");
  if (!transformedConvolutionNames.includes(transformedConvolutions))
    fail("transformedConvolutions", transformedConvolutions, transformedConvolutionNames.join(", "));
  if (!Array.isArray(kernels)) fail("kernels", kernels, "a list of kernels");
  const names: Readonly<Record<string, readonly string[]>> = variantNamesOf(parts.set);
  checkNames("cpu", variants, Object.keys(names) as (keyof ForcedVariants)[], "variants");
  for (const [operation, name] of Object.entries(variants as Readonly<Record<string, unknown>>)) {
    const allowed = names[operation]!;
    if (name !== undefined && !allowed.includes(name as string))
      fail(`variants.${operation}`, name, allowed.join(", "));
  }
  return {
    ...{ threads, maxBytes, relaxedSimd, variants: { ...variants }, blas, transformedConvolutions },
    ...{ kernels, parts },
  };
}

function fail(argument: string, value: unknown, allowed: string): never {
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  return new Checks("cpu").fail(argument, `is ${shown}; allowed: ${allowed}`);
}
