import type { ComputeBackend } from "./backend.js";
import { type BackendError, toBackendError } from "./errors.js";

/** A call that is to be carried out later. */
interface Deferred {
  run(inner: ComputeBackend): void;
  /** Tells whoever waits for the call that it will never be carried out. */
  cancel(error: BackendError): void;
}

/** Calls made while allocations were being moved, in order. */
export class DeferredCalls {
  #calls: Deferred[] = [];

  add(run: (inner: ComputeBackend) => void, cancel: (error: BackendError) => void = () => {}): void {
    this.#calls.push({ run, cancel });
  }

  /** None of the calls will be carried out. */
  cancel(error: BackendError): void {
    const calls = this.#calls;
    this.#calls = [];
    for (const call of calls) call.cancel(error);
  }

  /**
   * Carries the calls out, but cancels the rest as soon as `reason` answers why no more can be.
   * Answers with what went wrong.
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
