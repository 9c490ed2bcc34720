import type { OperationName } from "@backplane/core";

/**
 * Names, for some of the operations that have variants, the one to compute them with (see `variantNames`);
 * gemm's goes for batchedGemm too.
 */
export type ForcedVariants = { readonly [Name in OperationName]?: string };

/** Names of variants, for each operation that has any. */
export type VariantNames = { readonly [Name in OperationName]?: readonly string[] };
