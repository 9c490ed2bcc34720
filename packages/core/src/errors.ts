/** Why a call failed. The codes are stable; messages are for people. */
export type ErrorCode =
  /** A call that needs a device was made before `init()` resolved. */
  | "NOT_INITIALIZED"
  /** A call was made after `dispose()`, or was pending at that time. */
  | "DISPOSED"
  /** An argument is malformed, contradicts another, or overlaps one that it must not overlap. */
  | "INVALID_ARGUMENT"
  /** A handle is not live on this backend: it was freed or forged, was lost with a device, or is of another one. */
  | "INVALID_HANDLE"
  /** A region reaches past the end of its allocation. */
  | "OUT_OF_BOUNDS"
  /** The device cannot hold the allocation. */
  | "OUT_OF_MEMORY"
  /** The call cannot run beside something under way, such as another `tune`. Try again later. */
  | "BUSY"
  /** The backend lacks the operation or element type, or this machine cannot run the backend. */
  | "UNSUPPORTED"
  /** The device is gone, or the call needs contents that were lost with it. `init()` opens a fresh one. */
  | "DEVICE_LOST"
  /** The device reported a fault after it had accepted a call. */
  | "DEVICE_ERROR";

/** Further facts about a failure. */
export interface BackendErrorDetails {
  /** The method that failed, such as `gemm`. */
  readonly operation?: string;
  /** The argument at fault, such as `lda`. */
  readonly argument?: string;
  /** The underlying error, if there is one. */
  readonly cause?: unknown;
}

/**
 * The one error class of every backend. `message` names the operation, the argument, its value and the
 * allowed values.
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

/** Tests the name, not the class, so that an error from a second copy of this package keeps its code. */
export function isBackendError(error: unknown): error is BackendError {
  return error instanceof Error && error.name === "BackendError" && "code" in error;
}

/**
 * Returns `error` itself if it is a `BackendError` that names its operation. Otherwise returns a new error
 * that names `operation`, with `error` as cause and its code, or `code` if it has none.
 */
export function toBackendError(error: unknown, code: ErrorCode, operation: string): BackendError {
  const isOurs = isBackendError(error);
  if (isOurs && error.operation !== undefined) return error;
  const reason = error instanceof Error ? error.message : String(error);
  const message = isOurs && reason.startsWith(`${operation}: `) ? reason : `${operation}: ${reason}`;
  return new BackendError(isOurs ? error.code : code, message, { operation, cause: error });
}
