import type { ComputeBackend } from "../backend.js";
import { record } from "../recording/parts.js";
import type { Recording, RecordsCalls, Vary } from "../recording/recording.js";
import { RepeatingPlayer } from "../recording/repeating.js";
import { type OperationArguments, type OperationName, operationNames, operations } from "./index.js";
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

abstract class Methods {
  abstract run(operation: Operation, args: object): void;

  record<Values extends object>(body: (vary: Vary<Values>) => void, values?: Values): Recording<Values> {
    return record(new RepeatingPlayer(this as unknown as ComputeBackend), body, values);
  }
}
for (const name of operationNames) {
  const operation = operations[name];
  const value = function (this: Methods, args: object): void {
    this.run(operation, args);
  };
  Object.defineProperty(Methods.prototype, name, { value, writable: true, configurable: true });
}

export const OperationMethods: abstract new () => OperationMethods =
  Methods as unknown as abstract new () => OperationMethods;
