import type { DType, OperationName } from "@backplane/core";
import type { Law } from "../law.js";

/**
 * Returns a function that makes laws on an operation in one element type. Those on a kind do not bind backends that lack
 * it; undefined stands for all kinds.
 */
export function kindLaw<Kind extends string>(
  operation: OperationName,
  dtype: DType,
): (name: string, kind: Kind | undefined, run: Law["run"]) => Law {
  return (name, kind, run) => ({
    ...{ topic: operation, name, operation, dtype, run },
    exempt: (_capabilities, backend) =>
      kind === undefined || backend.supports(operation, { dtype, kind })
        ? undefined
        : `${kind} in ${dtype} is not supported`,
  });
}
