import { BackendError, type ErrorCode } from "@backplane/core";

/** Why ranks could not work together. The codes are stable; messages are for people. */
export type CommunicationErrorCode =
  /** The ranks made different calls, or with different arguments. Nothing was moved, and they may go on. */
  | "MISMATCH"
  /** Another rank could not read its operand. Nothing was moved, and they may go on. */
  | "RANK_FAILED"
  /** The process of another rank ended. The communicator, and all that were split from it, are of no more use. */
  | "RANK_LOST"
  /** Others did not come within `timeoutSeconds`. The communicator, and all of its kin, are of no more use. */
  | "TIMED_OUT"
  /** The MPI library reported an error. The communicator, and all of its kin, are of no more use. */
  | "MPI_ERROR"
  /** `dispose` was called before. */
  | "DISPOSED";

/** A failure of the communication between ranks. Bad arguments are a `BackendError` instead. */
export class CommunicationError extends Error {
  readonly code: CommunicationErrorCode;
  readonly operation: string;
  /** The ranks at fault, as far as that is known, as ranks of the communicator that was used. */
  readonly ranks: readonly number[];

  constructor(
    code: CommunicationErrorCode,
    operation: string,
    complaint: string,
    ranks: readonly number[] = [],
  ) {
    super(`${operation}: ${complaint}`);
    this.name = "CommunicationError";
    this.code = code;
    this.operation = operation;
    this.ranks = ranks;
  }
}

/** Throws a `BackendError` that says what is wrong with an argument of `openCommunicator`. */
export function refuseToOpen(argument: string, complaint: string, code: ErrorCode = "UNSUPPORTED"): never {
  const operation = "openCommunicator";
  throw new BackendError(code, `${operation}: ${argument} ${complaint}`, { operation, argument });
}

export function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split("\n", 1)[0]!;
}
