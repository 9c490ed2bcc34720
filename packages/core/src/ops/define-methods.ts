import type { RecordsCalls } from "../recording/recording.js";
import type { OperationArguments, OperationName, Operations } from "./index.js";
import { operationNames } from "./index.js";
import type { Operation } from "./operation.js";

/** A method for each core operation. */
export type MethodsOfOperations = {
  -readonly [Name in OperationName]: (args: OperationArguments[Name]) => void;
};

/** Runs any operation: a core operation by name or as an object, or one defined elsewhere. */
export interface RunsOperations {
  run<Name extends OperationName>(operation: Name, args: OperationArguments[Name]): void;
  run<Arguments extends object>(operation: Operation<Arguments>, args: Arguments): void;
}

/**
 * The core operations as methods that all call `run`, and a `record` whose recordings make the same calls again: for
 * classes that implement `ComputeBackend`.
 */
export interface OperationMethods extends MethodsOfOperations, RunsOperations, RecordsCalls {}

/** For classes that have all of these by other means, such as `defineMethods`. */
export const Declared: abstract new () => OperationMethods =
  class {} as unknown as abstract new () => OperationMethods;

/** Gives a class a method for each core operation. It hands `run` the operation, or the name of one that is not among `some`. */
export function defineMethods(prototype: object, some: Partial<Operations>): void {
  for (const name of operationNames) {
    const operation = some[name] ?? name;
    const value = function (this: RunsOperations, args: object): void {
      this.run(operation as Operation, args);
    };
    Object.defineProperty(prototype, name, { value, writable: true, configurable: true });
  }
}
