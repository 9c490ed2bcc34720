import { BackendError, checkNames } from "@backplane/core";
import { availableThreads } from "./features.js";
import { largestHeapBytes } from "./heap.js";
import { blasName, gemmVariants } from "./kernels/gemm/variants.js";
import type { OwnCpuKernel } from "./kernels/kernel.js";
import type { BlasOption } from "./native/find-blas.js";

export interface CpuOptions {
  /**
   * Worker threads that run kernels. 0: kernels run inside the calls that enqueue them, on the
   * calling thread. Default: one for each thread of the machine, at most 8. Where memory cannot be
   * shared the backend uses 0 whatever is asked for, and says so in `capabilities.device.details`.
   */
  readonly threads?: number;
  /**
   * Most bytes of device memory, for everything together. Memory is taken as it is needed. Default:
   * 4 GiB less 64 KiB, which is all that its addresses reach, or as much of that as the engine is
   * ready to set addresses aside for.
   */
  readonly maxBytes?: number;
  /**
   * Whether to use relaxed SIMD (fused multiply-add): true fails where the engine lacks it. Default
   * "auto": where the engine has it.
   */
  readonly relaxedSimd?: boolean | "auto";
  /**
   * A native library with the C interface of BLAS, for gemm in f32 where it is faster than WebAssembly.
   * In Node, with npm `koffi` installed. A path (or a name that the system looks up): that library;
   * `init` fails where it cannot be used. "auto": OpenBLAS, MKL or Accelerate where there is one. What
   * is in use, or why nothing is, is in `capabilities.device.details`. Default false: none.
   */
  readonly blas?: BlasOption;
  /**
   * Kernels to use whatever the shape, by operation and name (see `variantNames`); for tests and
   * comparisons. Default: the fastest, as `init` finds by timing those that give the same bits. `init`
   * fails where the engine cannot run the one asked for.
   */
  readonly variants?: ForcedVariants;
  /** Kernels for operations that are not core's; see `@backplane/backend-cpu/kernel`. Default: none. */
  readonly kernels?: readonly OwnCpuKernel[];
}

/** Names, for some operations, the variant to compute them with; gemm's goes for batchedGemm too. */
export interface ForcedVariants {
  readonly gemm?: string;
}

/** The names that `CpuOptions.variants` takes. */
export const variantNames: Readonly<Record<keyof ForcedVariants, readonly string[]>> = {
  gemm: [blasName, ...gemmVariants.map(({ name }) => name)],
};

export interface ResolvedOptions {
  readonly threads: number;
  readonly maxBytes: number | undefined;
  readonly relaxedSimd: boolean | "auto";
  readonly gemmVariant: string | undefined;
  readonly blas: BlasOption;
  readonly kernels: readonly OwnCpuKernel[];
}

/** The least memory with which a backend can do anything. */
export const leastBytes: number = 4 << 20;
const mostThreads = 64;
const defaultThreads = 8;

/** Fills in the defaults; throws `INVALID_ARGUMENT` for what cannot be, and for names of no option. */
export function resolveOptions(options: CpuOptions): ResolvedOptions {
  checkNames("cpu", options, ["threads", "maxBytes", "relaxedSimd", "blas", "variants", "kernels"]);
  const { relaxedSimd = "auto", variants = {}, maxBytes, blas = false, kernels = [] } = options;
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
  if (!Array.isArray(kernels)) fail("kernels", kernels, "a list of kernels");
  checkNames("cpu", variants, ["gemm"], "variants");
  for (const [operation, name] of Object.entries(variants as Readonly<Record<string, unknown>>)) {
    const names: Readonly<Record<string, readonly string[]>> = variantNames;
    const allowed = names[operation]!;
    if (name !== undefined && !allowed.includes(name as string))
      fail(`variants.${operation}`, name, allowed.join(", "));
  }
  return { threads, maxBytes, relaxedSimd, gemmVariant: variants.gemm, blas, kernels };
}

function fail(argument: string, value: unknown, allowed: string): never {
  const shown = typeof value === "string" ? JSON.stringify(value) : String(value);
  throw new BackendError("INVALID_ARGUMENT", `cpu: ${argument} is ${shown}; allowed: ${allowed}`, {
    operation: "cpu",
    argument,
  });
}
