/** Why a call failed. The codes are stable; messages are for people. */
export type ErrorCode =
  /** A call that needs a device was made before `init()` resolved. */
  | "NOT_INITIALIZED"
  /** A call was made after `dispose()`, or was pending when it was called. */
  | "DISPOSED"
  /** An argument is malformed, contradicts another, or overlaps what it may not. */
  | "INVALID_ARGUMENT"
  /** A handle is not live on this backend: freed, forged, from before a loss, or of another one. */
  | "INVALID_HANDLE"
  /** A region reaches past the end of its allocation. */
  | "OUT_OF_BOUNDS"
  /** The device cannot hold the allocation. */
  | "OUT_OF_MEMORY"
  /** What is asked for excludes something that is under way, such as another `tune`. It can be tried again later. */
  | "BUSY"
  /** The backend does not have the operation or element type, or this machine not the backend. */
  | "UNSUPPORTED"
  /** The device has gone away, or the call needs contents that went with it. `init()` opens a fresh one. */
  | "DEVICE_LOST"
  /** The device reported a fault after a call had been accepted. */
  | "DEVICE_ERROR";

/** What else is known of a failure. */
export interface BackendErrorDetails {
  /** The method that failed, such as `gemm`. */
  readonly operation?: string;
  /** The argument at fault, such as `lda`. */
  readonly argument?: string;
  /** The underlying error, where there is one. */
  readonly cause?: unknown;
}

/**
 * The one error class of every backend. `message` names the operation, the argument, what it was
 * and what was allowed.
 */
export class BackendError extends Error {
  readonly code: ErrorCode;
  readonly operation: string | undefined;
  readonly argument: string | undefined;

  constructor(code: ErrorCode, message: string, details: BackendErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = "BackendError";
    this.code = code;
    this.operation = details.operation;
    this.argument = details.argument;
  }
}

/** Told by its name, so that one from a second copy of this package keeps its code. */
function isBackendError(error: unknown): error is BackendError {
  return error instanceof Error && error.name === "BackendError" && "code" in error;
}

/**
 * The error itself where it is a `BackendError` that names its operation; else one that names this one, with the
 * error as cause, and `code` unless that has one.
 */
export function toBackendError(error: unknown, code: ErrorCode, operation: string): BackendError {
  const isOurs = isBackendError(error);
  if (isOurs && error.operation !== undefined) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const message = isOurs && reason.startsWith(`${operation}: `) ? reason : `${operation}: ${reason}`;
  return new BackendError(isOurs ? error.code : code, message, { operation, cause: error });
}
