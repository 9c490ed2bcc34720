import { Checks, checkNames, type OperationName } from "@backplane/core";
import type { ForcedVariants, VariantNames } from "./forced-variants.js";
import type { KernelSet } from "./set.js";

/** Returns the names that `WebGpuOptions.variants` takes for a backend with these kernels. */
export function variantNamesOf({ entries }: KernelSet): VariantNames {
  return Object.fromEntries(
    entries.flatMap(({ operation, variants }) =>
      variants === undefined ? [] : [[operation, variants.rows.map(({ name }) => name)]],
    ),
  );
}

/** Throws `INVALID_ARGUMENT`, with the allowed names, for operations without variants and unknown names. */
export function checkForced(variants: ForcedVariants, kernels: KernelSet): void {
  const variantNames = variantNamesOf(kernels);
  checkNames("webgpu", variants, Object.keys(variantNames) as OperationName[], "variants");
  for (const [operation, name] of Object.entries(variants as Readonly<Record<string, unknown>>)) {
    const allowed = variantNames[operation as OperationName]!;
    if (name !== undefined && !allowed.includes(name as string))
      new Checks("webgpu").fail(
        `variants.${operation}`,
        `is ${String(name)}; allowed: ${allowed.join(", ")}`,
      );
  }
}

/** For the description of the device: which variants are forced, if any. */
export function forcedDetails(variants: ForcedVariants = {}): Readonly<Record<string, string>> {
  const forced = Object.entries(variants).filter(([, name]) => name !== undefined);
  return forced.length === 0 ? {} : { variants: forced.map(([name, by]) => `${name}: ${by}`).join(", ") };
}
