import { type BackendError, toBackendError } from "../errors.js";

/**
 * The first fault that a wrapper learned of by reads of its own, or by calls that it carried out later. It belongs to the next
 * promise of the caller.
 */
export class Faults {
  #fault: BackendError | undefined;

  keep(error: unknown, operation: string): void {
    this.#fault ??= toBackendError(error, "DEVICE_ERROR", operation);
  }

  /** Throws the fault, once. */
  throwKept(): void {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault;
  }

  /** What happened on a lost device must not be reported by a fresh one. */
  forget(): void {
    this.#fault = undefined;
  }
}
