import { BackendError, type DType, dtypes, type ErrorCode } from "@backplane/core";

/** Throws an error that names the operation, the argument, what it was and what is allowed. */
export function refuse(
  operation: string,
  argument: string,
  complaint: string,
  code: ErrorCode = "INVALID_ARGUMENT",
): never {
  throw new BackendError(code, `${operation}: ${argument} ${complaint}`, { operation, argument });
}

/** Returns an element type, which must be one. */
export function checkDtype(operation: string, dtype: DType): DType {
  if (dtypes.includes(dtype)) return dtype;
  return refuse(operation, "dtype", `is ${String(dtype)}; allowed: ${dtypes.join(", ")}`);
}

export function listed(numbers: readonly number[]): string {
  return `[${numbers.join(", ")}]`;
}
