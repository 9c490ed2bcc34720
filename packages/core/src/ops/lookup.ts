import { takesScalar } from "../arguments.js";
import { describe } from "../handles.js";
import { Checks } from "./checks.js";
import {
  type OperationArguments,
  type OperationName,
  type OperationProblems,
  type Operations,
  operationNames,
  operations,
} from "./index.js";
import type { Fill, Operation } from "./operation.js";
import type { Binder } from "./reader.js";

/** Whether an operation is one of core's, and not one of somebody else that has the same name. */
export function isOfCore(operation: Operation): boolean {
  return (operations[operation.name as OperationName] as Operation | undefined) === operation;
}

/** Returns an operation, given the name of a core operation or the operation itself. */
export function operationOf(caller: string, given: OperationName | Operation): Operation {
  return operationIn(operations, caller, given);
}

/** The same for a program that may have only some of core's operations. */
export function operationIn(
  some: Partial<Operations>,
  caller: string,
  given: OperationName | Operation,
): Operation {
  if (typeof given === "string" && Object.hasOwn(some, given)) return some[given]!;
  if (typeof (given as Operation | undefined)?.resolve === "function") return given as Operation;
  const allowed = `${operationNames.join(", ")}, or what defineOperation returned`;
  return new Checks(caller).fail("operation", `is ${describe(given)}; allowed: ${allowed}`);
}

/** Whether an argument of an operation of core may be a scalar. */
export function scalarMayStand(operation: string, argument: string): boolean {
  return takesScalar(operations[operation as OperationName], argument);
}

/** Returns the problem of a call, with regions in the memory of the binder; see `Operation.resolve`. */
export function resolveOperation<Name extends OperationName, Memory>(
  name: Name,
  args: OperationArguments[Name],
  binder: Binder<Memory>,
): OperationProblems<Memory>[Name] | Fill | undefined {
  const operation: Operation<OperationArguments[Name], OperationProblems<unknown>[Name]> = operations[name];
  return operation.resolve(args, binder) as OperationProblems<Memory>[Name] | Fill | undefined;
}
