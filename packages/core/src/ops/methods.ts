import type { ComputeBackend } from "../backend.js";
import { record } from "../recording/parts.js";
import type { Recording, Vary } from "../recording/recording.js";
import { RepeatingPlayer } from "../recording/repeating.js";
import { defineMethods, type OperationMethods as OperationMethodsType } from "./define-methods.js";
import { operations } from "./index.js";
import type { Operation } from "./operation.js";

abstract class Methods {
  abstract run(operation: Operation, args: object): void;

  record<Values extends object>(body: (vary: Vary<Values>) => void, values?: Values): Recording<Values> {
    return record(new RepeatingPlayer(this as unknown as ComputeBackend), body, values);
  }
}
defineMethods(Methods.prototype, operations);

/** See the interface. */
export type OperationMethods = OperationMethodsType;
export const OperationMethods: abstract new () => OperationMethodsType =
  Methods as unknown as abstract new () => OperationMethodsType;
