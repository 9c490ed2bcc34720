import { type BackendError, toBackendError } from "./errors.js";
import { Listeners } from "./listeners.js";

/**
 * The faults that a driver reports later than the calls that caused them: who listens to them, and the promises that end
 * with them.
 */
export class LateFaults extends Listeners<BackendError> {
  /** For each promise that waits for the device: the function that ends the wait. */
  readonly #waiting = new Set<(error: BackendError) => void>();
  /** The first one that no call has reported yet. */
  #first: BackendError | undefined;

  report(error: BackendError): void {
    this.#first ??= error;
    this.emit(error);
  }

  /** Throws the fault that no call has reported yet, if there is one. */
  raise(): void {
    const fault = this.#first;
    this.#first = undefined;
    if (fault !== undefined) throw fault;
  }

  /** Waits for `work`, unless `end` ends the wait first. Then throws an unreported fault if there is one. */
  async wait(operation: string, work: () => Promise<void>): Promise<void> {
    let interruption: BackendError | undefined;
    let interrupt!: (error: BackendError) => void;
    const interrupted = new Promise<void>((resolve) => {
      interrupt = (error) => {
        interruption = error;
        resolve();
      };
    });
    this.#waiting.add(interrupt);
    let failure: BackendError | undefined;
    try {
      await Promise.race([work(), interrupted]);
    } catch (error) {
      failure = toBackendError(error, "DEVICE_ERROR", operation);
    } finally {
      this.#waiting.delete(interrupt);
    }
    if (interruption !== undefined) throw interruption;
    // An earlier fault explains the failure, or spoils the success.
    this.raise();
    if (failure !== undefined) throw failure;
  }

  /** Ends all waits and forgets the fault, because the device is lost or disposed of. */
  end(error: BackendError): void {
    this.#first = undefined;
    for (const interrupt of this.#waiting) interrupt(error);
    this.#waiting.clear();
  }
}
