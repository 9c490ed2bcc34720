import { BackendError } from "../errors.js";

/** Returns the error of a call that cannot be made while calls are being recorded. */
export function whileRecording(operation: string): BackendError {
  return new BackendError(
    "BUSY",
    `${operation}: calls are being recorded; allowed in record(): operations, copyDtoD, fill`,
    { operation },
  );
}
