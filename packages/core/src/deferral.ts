import type { ComputeBackend } from "./backend.js";
import { type BackendError, toBackendError } from "./errors.js";

/** A call to carry out later. */
interface Deferred {
  run(inner: ComputeBackend): void;
  /** Tells the caller that waits that the call will never be carried out. */
  cancel(error: BackendError): void;
}

/** Calls made while allocations were being moved, in order. */
export class DeferredCalls {
  #calls: Deferred[] = [];

  add(run: (inner: ComputeBackend) => void, cancel: (error: BackendError) => void = () => {}): void {
    this.#calls.push({ run, cancel });
  }

  /** Cancels all calls with `error`. */
  cancel(error: BackendError): void {
    const calls = this.#calls;
    this.#calls = [];
    for (const call of calls) call.cancel(error);
  }

  /**
   * Carries out the calls in order. As soon as `reason` returns an error, cancels the rest with it. Returns
   * the errors of the calls that failed.
   */
  carryOut(inner: ComputeBackend, reason: () => BackendError | undefined): readonly BackendError[] {
    const faults: BackendError[] = [];
    for (const call of this.#calls) {
      const end = reason();
      if (end !== undefined) call.cancel(end);
      else
        try {
          call.run(inner);
        } catch (error) {
          faults.push(toBackendError(error, "DEVICE_ERROR", "use"));
        }
    }
    this.#calls = [];
    return faults;
  }
}
