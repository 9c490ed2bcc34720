import { type OperationName, operationNames } from "@backplane/core";
import * as list from "./list.js";
import type { TestedOperation } from "./operation.js";

/** One entry per operation of core; see `list.ts`. */
export const testedOperations: Readonly<Record<OperationName, TestedOperation>> = list;

/** All of them, in the order of the contract. */
export const everyOperation: readonly TestedOperation[] = operationNames.map(
  (name) => testedOperations[name],
);

/** Returns the kinds of an operation that the formula is for; undefined if the operation has none. */
export function kindsOf({ operation, supports }: TestedOperation): readonly string[] | undefined {
  return operation.kinds?.filter((kind) =>
    supports.some(({ kind: kinds = true }) => kinds === true || kinds.includes(kind)),
  );
}
