import { BackendError, toBackendError } from "@backplane/core";
import type { BlasOutcome } from "../../native/find-blas.js";
import type { ExpectedVariant, Features, SettledVariant, VariantTools } from "../kernel.js";
import { fastest, loneProbe, probeKernel, type TimedVariant, timeGemmVariants } from "./choose.js";
import { blasName, blasUse, fittingGemmVariants, type GemmVariant } from "./variants.js";

/** See `OperationVariants.expect`. */
export function expectGemm(
  features: Features,
  forced: string | undefined,
  blas: BlasOutcome,
): ExpectedVariant {
  const unsupported = (why: string) =>
    new BackendError("UNSUPPORTED", `cpu: gemm variant ${forced} ${why}`, { operation: "init" });
  const use = blasUse(features, forced);
  if (forced === blasName && use === "never")
    throw unsupported(`needs a native library (${blas.unavailable ?? "blas is off"})`);
  const [variant] = fittingGemmVariants(features, forced);
  if (variant === undefined) throw unsupported("needs relaxed SIMD");
  const details = { gemmVariant: variant.name };
  if (use === "never") return { usesBlas: false, details };
  return { usesBlas: true, details: { ...details, blas: `${blas.found!.description}, ${use}` } };
}

/**
 * Compiles the kernels now, so that the first product finds them ready, and times the variants if there are
 * several. See `OperationVariants.settle`.
 */
export async function settleGemm({ features, forced, make }: VariantTools): Promise<SettledVariant> {
  const variants = fittingGemmVariants(features, forced);
  const makeProbe = (variant: GemmVariant) => {
    try {
      return make(probeKernel(variant).name);
    } catch (error) {
      throw toBackendError(error, "UNSUPPORTED", "init");
    }
  };
  // The first is the most likely choice: its probe runs among the kernels of products, which are then
  // fast from the beginning.
  const [first, ...others] = variants as readonly [GemmVariant, ...GemmVariant[]];
  const probes = [{ variant: first, run: makeProbe(first) }];
  let speeds: readonly TimedVariant[] = variants.map((variant) => ({ variant, gigaflops: 0 }));
  try {
    for (const variant of others) probes.push({ variant, run: loneProbe(variant, features) });
    speeds = await timeGemmVariants(probes);
  } catch {
    // If even timing fails, the first is as good as any.
  }
  const chosen = fastest(speeds);
  makeProbe(chosen);
  return { name: chosen.name, details: { gemmVariant: chosen.name, ...timings(speeds) } };
}

/** Returns the text in `details` about a choice that was made by time. */
function timings(timed: readonly TimedVariant[]): Readonly<Record<string, string>> {
  if (timed.length < 2) return {};
  const speeds = timed.map(({ variant, gigaflops }) => `${variant.name} ${gigaflops.toFixed(0)}`);
  return { gemmTimed: `${speeds.join(", ")} GFLOP/s` };
}
