import type { BackendState, ComputeBackend } from "../backend.js";
import { BackendError, type ErrorCode } from "../errors.js";
import { describe } from "../handles.js";
import { Listeners } from "../listeners.js";
import { Checks } from "../ops/checks.js";
import { lossOf } from "../swap.js";

/** Throws `INVALID_ARGUMENT` unless these are two different backends. `wrapper` is the class that needs them. */
export function checkTwoBackends(wrapper: string, first: ComputeBackend, second: ComputeBackend): void {
  const checks = new Checks(wrapper);
  for (const [argument, backend] of Object.entries({ first, second }))
    if (typeof (backend as Partial<ComputeBackend> | undefined)?.alloc !== "function")
      checks.fail(argument, `is ${describe(backend)}; allowed: a backend`);
  if (first === second) checks.fail("second", "is the first backend; allowed: another one");
}

/** Two backends that are opened and closed as one. If one is lost, both are. */
export class BackendPair {
  readonly backends: readonly [ComputeBackend, ComputeBackend];
  readonly #onLoss: (error: BackendError) => void;
  readonly #lostListeners = new Listeners<BackendError>("onLost");
  readonly #errorListeners = new Listeners<BackendError>("onError");
  #isOpen = false;
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #loss: BackendError | undefined;

  /** `onLoss` is called at each loss, with the error of calls that were under way, before the listeners are. */
  constructor(
    first: ComputeBackend,
    second: ComputeBackend,
    wrapper: string,
    onLoss: (error: BackendError) => void,
  ) {
    this.backends = [first, second];
    this.#onLoss = onLoss;
    for (const backend of this.backends) {
      backend.onLost((error) => this.#lose(error, wrapper));
      backend.onError((error) => this.reportError(error));
    }
  }

  get state(): BackendState {
    if (this.#closing !== undefined) return "disposed";
    if (this.#loss !== undefined) return "lost";
    return this.#isOpen ? "open" : "new";
  }

  /** Whether they were open at some time, so that they can describe themselves. */
  get wasOpen(): boolean {
    return this.#isOpen;
  }

  init(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(this.unusable("init"));
    if (this.#opening === undefined) {
      const opening: Promise<void> = this.#open().catch((error: unknown) => {
        // A loss may already have started another attempt.
        if (this.#opening === opening) this.#opening = undefined;
        throw error;
      });
      this.#opening = opening;
    }
    return this.#opening;
  }

  async #open(): Promise<void> {
    const results = await Promise.allSettled(this.backends.map((backend) => backend.init()));
    if (this.#closing !== undefined) throw this.unusable("init");
    for (const result of results) if (result.status === "rejected") throw result.reason;
    for (const backend of this.backends) {
      const loss = lossOf(backend);
      if (loss !== undefined) throw loss;
    }
    this.#loss = undefined;
    this.#isOpen = true;
  }

  #lose(error: BackendError, wrapper: string): void {
    if (this.#closing !== undefined || !this.#isOpen) return;
    this.#opening = undefined;
    if (this.#loss !== undefined) return;
    this.#loss = error;
    this.#onLoss(this.unusable(wrapper));
    this.#lostListeners.emit(error);
  }

  async synchronize(): Promise<void> {
    await allOf(this.backends.map((backend) => backend.synchronize()));
  }

  /** Closes both. Calls `onClose` before, the first time, with the error of calls that are under way. */
  dispose(onClose: (error: BackendError) => void): Promise<void> {
    if (this.#closing === undefined) {
      onClose(this.#error("DISPOSED", "dispose", "the backend was disposed of"));
      this.#closing = allOf(this.backends.map((backend) => backend.dispose()));
    }
    return this.#closing;
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.#lostListeners.add(listener, this.#closing === undefined ? this.#loss : undefined);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#errorListeners.add(listener);
  }

  reportError(error: BackendError): void {
    this.#errorListeners.emit(error);
  }

  assertOpen(operation: string): void {
    if (this.state !== "open") throw this.unusable(operation);
  }

  /** Returns the error that says why the backends cannot be used. */
  unusable(operation: string): BackendError {
    if (this.#closing !== undefined) return this.#error("DISPOSED", operation, "the backend was disposed of");
    if (this.#loss !== undefined)
      return this.#error(
        "DEVICE_LOST",
        operation,
        `${this.#loss.message}; init() opens a fresh device`,
        this.#loss,
      );
    return this.#error("NOT_INITIALIZED", operation, "call init() and await it first");
  }

  #error(code: ErrorCode, operation: string, message: string, cause?: BackendError): BackendError {
    return new BackendError(code, `${operation}: ${message}`, { operation, cause });
  }
}

/** Waits for all, and then rejects with the first error. */
async function allOf(promises: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(promises))
    if (result.status === "rejected") throw result.reason;
}
