import { BackendError, type ErrorCode } from "@backplane/core";

/** Throws an error that names the operation, the argument, what it was and what is allowed. */
export function refuse(
  operation: string,
  argument: string,
  complaint: string,
  code: ErrorCode = "INVALID_ARGUMENT",
): never {
  throw new BackendError(code, `${operation}: ${argument} ${complaint}`, { operation, argument });
}

export function listed(numbers: readonly number[]): string {
  return `[${numbers.join(", ")}]`;
}
