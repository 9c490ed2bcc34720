import type { BackendState, ComputeBackend } from "./backend.js";
import { DeferredCalls } from "./deferral.js";
import type { Entry } from "./entries.js";
import { BackendError, type ErrorCode, toBackendError } from "./errors.js";
import type { HandleTable } from "./handles.js";
import { Listeners } from "./listeners.js";
import { whileRecording } from "./recording/while-recording.js";
import type { BackendRegistry } from "./registry.js";
import { Spares } from "./spares.js";
import { type LostAllocation, lossOf, type Moved, moveAll, replaceAll, type SwapReport } from "./swap.js";

/**
 * The backend that a `SwitchableBackend` has in use. Opens, exchanges and closes it, moves the allocations
 * behind the handles in `table`, and defers calls meanwhile.
 */
export class BackendSlot {
  readonly #registry: BackendRegistry;
  readonly #chain: string | readonly string[];
  readonly #table: HandleTable<Entry>;
  readonly #lostListeners = new Listeners<BackendError>("onLost");
  readonly #errorListeners = new Listeners<BackendError>("onError");
  #inner: ComputeBackend | undefined;
  #current = "";
  #stopForwarding: () => void = () => {};
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** The reason why the backend in use is lost, until another one is in use. */
  #loss: BackendError | undefined;
  /** True from a loss on, until no contents are missing any more. */
  #mayHaveLost = false;
  /** Settles when all swaps requested so far have ended. Never rejects. */
  #swaps: Promise<unknown> = Promise.resolve();
  /** Calls that wait for a move of the allocations to end; undefined while there is no move. */
  #deferred: DeferredCalls | undefined;
  /** Promises of the backends underneath that are still pending. The one in use is not closed before they settle. */
  readonly #pending = new Set<Promise<void>>();
  /** The first fault of a deferred call that no promise has reported yet. */
  #fault: BackendError | undefined;

  constructor(registry: BackendRegistry, chain: string | readonly string[], table: HandleTable<Entry>) {
    this.#registry = registry;
    this.#chain = chain;
    this.#table = table;
  }

  /** The name of the backend in use; empty before there is one. */
  get current(): string {
    return this.#current;
  }

  get state(): BackendState {
    if (this.#closing !== undefined) return "disposed";
    if (this.#loss !== undefined) return "lost";
    return this.#inner === undefined ? "new" : "open";
  }

  /** The backend in use, lost or not, for questions that are allowed at any time. */
  get inner(): ComputeBackend | undefined {
    return this.#inner;
  }

  /** Whether calls are deferred at this time. */
  get isDeferring(): boolean {
    return this.#deferred !== undefined;
  }

  /** Whether calls are being recorded, so that others must wait. */
  isRecording = false;

  /** Not to be used while calls are deferred: they are not moved. */
  readonly spares: Spares = new Spares();

  /** Whether there are live allocations whose contents are lost. */
  get hasLost(): boolean {
    if (this.#mayHaveLost) this.#mayHaveLost = this.lost.length > 0;
    return this.#mayHaveLost;
  }

  /** Live allocations whose contents are lost. */
  get lost(): readonly LostAllocation[] {
    const isLost = ({ bytes, lost }: Entry) => bytes > 0 && (lost || this.#loss !== undefined);
    return [...this.#table.entries()]
      .filter(([, entry]) => isLost(entry))
      .map(([handle, { bytes }]) => ({ handle, bytes }));
  }

  /** Opens the first backend of the chain that can be opened; after a loss, does so again. */
  init(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(this.unusable("init"));
    if (this.#opening === undefined) {
      const isFirst = this.#inner === undefined;
      const opening: Promise<void> = (isFirst ? this.#open() : this.#reopen()).catch((error: unknown) => {
        // A loss may already have started another attempt.
        if (this.#opening === opening) this.#opening = undefined;
        throw error;
      });
      this.#opening = opening;
    }
    return this.#opening;
  }

  async #open(): Promise<void> {
    const { name, backend } = await this.#registry.open(this.#chain);
    this.#adopt(name, backend);
    // dispose() waits for this and closes what was opened.
    if (this.#closing !== undefined || this.#loss !== undefined) throw this.unusable("init");
  }

  async #reopen(): Promise<void> {
    await this.#inTurn(async () => {
      // A swap requested earlier may have done it.
      if (this.#loss !== undefined) await this.#moveOn("init", () => this.#registry.open(this.#chain));
      else this.assertOpen("init");
    });
  }

  #adopt(name: string, backend: ComputeBackend, moved?: Moved): void {
    this.#stopForwarding();
    for (const [entry, handle] of moved?.handles ?? []) entry.inner = handle;
    this.spares.clear();
    this.#inner = backend;
    this.#current = name;
    this.#loss = undefined;
    const stops = [
      backend.onLost((error) => this.#onLoss(error)),
      backend.onError((error) => this.#errorListeners.emit(error)),
    ];
    this.#stopForwarding = () => {
      for (const stop of stops) stop();
    };
  }

  #onLoss(error: BackendError): void {
    if (this.#closing !== undefined) return;
    this.spares.clear();
    this.#loss = error;
    this.#mayHaveLost = true;
    this.#opening = undefined;
    this.#fault = undefined;
    this.#deferred?.cancel(this.unusable("use"));
    this.#lostListeners.emit(error);
  }

  use(name: string): Promise<SwapReport> {
    return this.#inTurn(() => this.#swap(name));
  }

  #inTurn<Result>(swap: () => Promise<Result>): Promise<Result> {
    const result = this.#swaps.then(swap);
    this.#swaps = result.catch(() => {});
    return result;
  }

  async #swap(name: string): Promise<SwapReport> {
    if (this.#closing === undefined && this.#loss !== undefined) {
      const next = this.#registry.create(name);
      return this.#moveOn("use", async () => ({ name, backend: next }));
    }
    const old = this.assertOpen("use");
    const from = this.#current;
    const start = performance.now();
    if (name === from) return this.#report(from, start);
    const next = this.#registry.create(name);
    let moved: Moved;
    try {
      await next.init();
      this.assertOpen("use");
      this.#deferred = new DeferredCalls();
      // The allocations live now are moved; calls on them wait until the move ends.
      const live = [...this.#table.entries()].map(([, entry]) => entry);
      const lost = new Set(live.filter((entry) => entry.lost));
      await old.synchronize();
      await Promise.allSettled(this.#pending);
      moved = await moveAll(live, lost, old, next, () => this.assertOpen("use"));
      await next.synchronize();
      assertNotLost(next);
      this.assertOpen("use");
    } catch (error) {
      const isNextLost = lossOf(next) !== undefined;
      // Calls continue on the old backend.
      this.#resume(old);
      // The reason stands, whether or not closing fails.
      await next.dispose().catch(() => {});
      if (this.#closing !== undefined || this.#loss !== undefined) throw this.unusable("use");
      if (isNextLost) throw lostTakingOver("use", name, error, `${from} stays in use`);
      throw toBackendError(error, "DEVICE_ERROR", "use");
    }
    this.#adopt(name, next, moved);
    this.#resume(next);
    await old.dispose().catch((error: unknown) => {
      this.#errorListeners.emit(toBackendError(error, "DEVICE_ERROR", "use"));
    });
    return this.#report(from, start, moved);
  }

  /** Switches to the next backend without the contents of the allocations, which were lost with the old one. */
  async #moveOn(
    operation: string,
    open: () => Promise<{ readonly name: string; readonly backend: ComputeBackend }>,
  ): Promise<SwapReport> {
    const from = this.#current;
    const start = performance.now();
    // The lost backend is of no more use, but it may hold resources that the next one needs.
    await this.#inner?.dispose().catch(() => {});
    this.#assertNotDisposed(operation);
    const { name, backend: next } = await open();
    // No call can allocate, free or read meanwhile, since every call is DEVICE_LOST.
    const live = [...this.#table.entries()].map(([, entry]) => entry);
    let moved: Moved;
    try {
      await next.init();
      this.#assertNotDisposed(operation);
      moved = replaceAll(live, next);
      await next.synchronize();
      assertNotLost(next);
      this.#assertNotDisposed(operation);
    } catch (error) {
      const isNextLost = lossOf(next) !== undefined;
      await next.dispose().catch(() => {});
      this.#assertNotDisposed(operation);
      if (isNextLost) throw lostTakingOver(operation, name, error, "use(name) or init() tries again");
      throw toBackendError(error, "DEVICE_ERROR", operation);
    }
    for (const entry of live) entry.lost = entry.bytes > 0;
    this.#adopt(name, next, moved);
    return this.#report(from, start, moved);
  }

  #report(from: string, start: number, moved?: Moved): SwapReport {
    const { allocations = 0, bytes = 0 } = moved ?? {};
    const milliseconds = moved === undefined ? 0 : performance.now() - start;
    return { from, to: this.#current, allocations, bytes, milliseconds, lost: this.lost };
  }

  /** Ends the deferral of calls and carries them out. */
  #resume(inner: ComputeBackend): void {
    const deferred = this.#deferred;
    this.#deferred = undefined;
    const isOver = () => this.#closing !== undefined || this.#loss !== undefined;
    const faults = deferred?.carryOut(inner, () => (isOver() ? this.unusable("use") : undefined)) ?? [];
    if (isOver()) return;
    this.#fault ??= faults[0];
    // Only now: listeners may make calls of their own, which come after the deferred ones.
    for (const fault of faults) this.#errorListeners.emit(fault);
  }

  dispose(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#table.clear();
    this.spares.clear();
    // A swap under way notices, gives up and closes the other backend. It may be waiting for this one.
    this.#inner?.dispose().catch(() => {});
    await this.#opening?.catch(() => {});
    await this.#swaps;
    this.#stopForwarding();
    await this.#inner?.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.#lostListeners.add(listener, this.#closing === undefined ? this.#loss : undefined);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#errorListeners.add(listener);
  }

  /** Carries out a call without a result, now or after the move. */
  tell(run: (inner: ComputeBackend) => void): void {
    if (this.#deferred === undefined) run(this.#inner!);
    else this.#deferred.add(run);
  }

  /** Carries out a call that returns a promise, now or after the move. */
  async ask(operation: string, call: (inner: ComputeBackend) => Promise<void>): Promise<void> {
    const inner = this.assertOpen(operation);
    const track = async (backend: ComputeBackend): Promise<void> => {
      const answer = call(backend);
      this.#pending.add(answer);
      try {
        await answer;
      } finally {
        this.#pending.delete(answer);
      }
    };
    const deferred = this.#deferred;
    if (deferred === undefined) await track(inner);
    else
      await new Promise<void>((resolve, reject) => {
        deferred.add((current) => {
          track(current).then(resolve, reject);
        }, reject);
      });
    this.#throwFault();
  }

  /**
   * Carries out a call that waits on this thread. Throws `BUSY` during a move, because this thread cannot
   * wait for it.
   */
  askNow(operation: string, call: (inner: ComputeBackend) => void): void {
    const inner = this.assertOpen(operation);
    this.assertNotMoving(operation, "await use() first, or await copyDtoH() instead");
    call(inner);
    this.#throwFault();
  }

  /** Throws `BUSY` during a move of the allocations. */
  assertNotMoving(operation: string, advice: string): void {
    if (this.#deferred !== undefined)
      throw this.#error("BUSY", operation, `the allocations are being moved to another backend; ${advice}`);
  }

  #throwFault(): void {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault;
  }

  /** Returns the backend in use. Throws if it cannot be used. */
  assertOpen(operation: string): ComputeBackend {
    if (this.#inner === undefined || this.#closing !== undefined || this.#loss !== undefined)
      throw this.unusable(operation);
    if (this.isRecording) throw whileRecording(operation);
    return this.#inner;
  }

  #assertNotDisposed(operation: string): void {
    if (this.#closing !== undefined) throw this.unusable(operation);
  }

  /** Returns the error that says why the backend cannot be used. */
  unusable(operation: string): BackendError {
    if (this.#closing !== undefined) return this.#error("DISPOSED", operation, "the backend was disposed of");
    if (this.#loss !== undefined)
      return this.#error(
        "DEVICE_LOST",
        operation,
        `${this.#loss.message}; use(name) or init() goes on without what it held`,
        this.#loss,
      );
    return this.#error("NOT_INITIALIZED", operation, "call init() and await it first");
  }

  #error(code: ErrorCode, operation: string, message: string, cause?: BackendError): BackendError {
    return new BackendError(code, `${operation}: ${message}`, { operation, cause });
  }
}

function assertNotLost(next: ComputeBackend): void {
  const loss = lossOf(next);
  if (loss !== undefined) throw loss;
}

function lostTakingOver(operation: string, name: string, cause: unknown, consequence: string): BackendError {
  const message = `${operation}: ${name} was lost while it took over; ${consequence}`;
  return new BackendError("DEVICE_LOST", message, { operation, cause });
}
