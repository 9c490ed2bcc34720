import type { Accuracy, OperationName, OperationProblems, Operations } from "@backplane/core";
import type { CpuMemory, CpuOperation, Features, OperationVariants } from "./kernel.js";

export type CpuOperations = {
  readonly [Name in OperationName]?: CpuOperation<OperationProblems<CpuMemory>[Name]>;
};

/** The variant to use for some operations, by name. The one for gemm also applies to batchedGemm. */
export interface ForcedVariants {
  readonly gemm?: string;
}

/** The operations of core that a backend has: all of this package, or those that a program has chosen. */
export interface KernelSet {
  /** What core knows about them. */
  readonly definitions: Partial<Operations>;
  readonly operations: CpuOperations;
  /** The variants of each operation that has any. One that is listed under two names goes by the first. */
  readonly variants: ReadonlyMap<keyof ForcedVariants, OperationVariants<unknown>>;
  /** What the operations declare together. */
  readonly accuracy: Accuracy;
  /** Returns the operations with only those kernels among which features and forced variants leave a choice. */
  limited(forced: ForcedVariants, features: Features): CpuOperations;
}

export function kernelSet(definitions: Partial<Operations>, operations: CpuOperations): KernelSet {
  // Without the types of their problems, which lists of them lose.
  const entries = Object.entries(operations) as readonly (readonly [string, CpuOperation<unknown>])[];
  const ofVariants: KernelSet["variants"] = new Map(
    entries.flatMap(([name, { variants }], i) =>
      variants === undefined || entries.findIndex(([, other]) => other.variants === variants) < i
        ? []
        : [[name as keyof ForcedVariants, variants]],
    ),
  );
  return {
    definitions,
    operations,
    variants: ofVariants,
    accuracy: Object.fromEntries(
      entries.flatMap(([name, { accuracy }]) => (accuracy === undefined ? [] : [[name, accuracy]])),
    ),
    limited(forced, features) {
      const limited = new Map<OperationVariants<unknown>, CpuOperation<unknown>>();
      for (const [name, variants] of ofVariants)
        limited.set(variants, variants.limited(features, forced[name]));
      return Object.fromEntries(
        entries.map(([name, operation]) => [
          name,
          operation.variants === undefined ? operation : limited.get(operation.variants),
        ]),
      );
    },
  };
}
