import { BackendError, type ComputeBackend, type DType, dtypes, type ErrorCode } from "@backplane/core";

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

/** Returns a backend, which must be one. */
export function checkBackend(operation: string, backend: ComputeBackend): ComputeBackend {
  const { alloc } = (backend ?? {}) as Partial<ComputeBackend>;
  if (typeof alloc === "function") return backend;
  return refuse(operation, "backend", `is ${described(backend)}; allowed: a ComputeBackend`);
}

/** What stands in the place of something else, for a message. */
export function described(value: unknown): string {
  return value === null || value === undefined ? String(value) : `of type ${typeof value}`;
}

export function listed(numbers: readonly number[]): string {
  return `[${numbers.join(", ")}]`;
}
