import type { ComputeBackend, DType, OperationName } from "@backplane/core";
import type { Law } from "../law.js";

/** For laws on some kinds of an operation in one element type, of which a backend may have only a few. */
export interface LawsOnKinds<Kind extends string> {
  /** Those of the kinds that the backend has. */
  having(context: { readonly backend: ComputeBackend }): readonly Kind[];
  /** A law on `wanted` that binds a backend with at least one of them. */
  law(name: string, wanted: readonly Kind[], run: Law["run"]): Law;
}

export function lawsOnKinds<Kind extends string>(
  operation: OperationName,
  dtype: DType,
  kinds: readonly Kind[],
): LawsOnKinds<Kind> {
  const having: LawsOnKinds<Kind>["having"] = ({ backend }) =>
    kinds.filter((kind) => backend.supports(operation, { dtype, kind }));
  return {
    having,
    law: (name, wanted, run) => ({
      ...{ topic: operation, name, operation, dtype, run },
      exempt: (_capabilities, backend) =>
        having({ backend }).some((kind) => wanted.includes(kind))
          ? undefined
          : `${wanted.join(", ")} in ${dtype}: not supported`,
    }),
  };
}
