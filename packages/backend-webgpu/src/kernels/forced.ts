import { BackendError, checkNames } from "@backplane/core";
import { attentionVariants } from "./attention/index.js";
import { convVariants } from "./conv2d/index.js";
import { gemmVariants } from "./gemm/index.js";

/** Names, for some operations, the variant to compute them with; gemm's goes for batchedGemm too. */
export interface ForcedVariants {
  readonly gemm?: string;
  readonly conv2d?: string;
  readonly attention?: string;
}

const namesOf = (table: readonly { readonly name: string }[]): readonly string[] =>
  table.map(({ name }) => name);

/** The names that `WebGpuOptions.variants` takes. */
export const variantNames: Readonly<Record<keyof ForcedVariants, readonly string[]>> = {
  gemm: namesOf(gemmVariants),
  conv2d: namesOf(convVariants),
  attention: namesOf(attentionVariants),
};

/** Throws `INVALID_ARGUMENT`, with the allowed names, for operations without variants and unknown names. */
export function checkForced(variants: ForcedVariants): void {
  const names: Readonly<Record<string, readonly string[]>> = variantNames;
  checkNames("webgpu", variants, Object.keys(names) as (keyof ForcedVariants)[], "variants");
  for (const [operation, name] of Object.entries(variants as Readonly<Record<string, unknown>>)) {
    const allowed = names[operation]!;
    if (name !== undefined && !allowed.includes(name as string))
      throw refusal(`variants.${operation}`, `is ${String(name)}; allowed: ${allowed.join(", ")}`);
  }
}

/** For the description of the device: which variants are forced, if any. */
export function forcedDetails(variants: ForcedVariants = {}): Readonly<Record<string, string>> {
  const forced = Object.entries(variants).filter(([, name]) => name !== undefined);
  return forced.length === 0 ? {} : { variants: forced.map(([name, by]) => `${name}: ${by}`).join(", ") };
}

function refusal(argument: string, complaint: string): BackendError {
  return new BackendError("INVALID_ARGUMENT", `webgpu: ${argument} ${complaint}`, {
    operation: "webgpu",
    argument,
  });
}
