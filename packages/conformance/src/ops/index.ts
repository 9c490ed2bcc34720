import { type DType, type OperationName, operationNames, type Support } from "@backplane/core";
import * as list from "./list.js";
import type { TestedOperation } from "./operation.js";

/** One entry per operation of core; see `list.ts`. */
export const testedOperations: Readonly<Record<OperationName, TestedOperation>> = list;

/** All of them, in the order of the contract. */
export const everyOperation: readonly TestedOperation[] = operationNames.map(
  (name) => testedOperations[name],
);

/** Returns the kinds of an operation that the formula is for, of a type or of any; undefined if the operation has none. */
export function kindsOf(
  { operation, supports }: TestedOperation,
  dtype?: DType,
): readonly string[] | undefined {
  const hasType = ({ dtype: types }: Support) =>
    dtype === undefined || types === undefined || types === true || types.includes(dtype);
  return operation.kinds?.filter((kind) =>
    supports.some((support) => {
      const { kind: kinds = true } = support;
      return hasType(support) && (kinds === true || kinds.includes(kind));
    }),
  );
}
