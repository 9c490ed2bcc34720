import { BackendError, toBackendError } from "../errors.js";
import { Listeners } from "../listeners.js";
import { movePieces, movePiecesSync } from "../pieces.js";
import { type Entry, endsOf, makeRoom, noteWrite, other, type Side } from "./fallback-contents.js";
import { FallbackCounts, type FallbackEvent, type FallbackReport } from "./fallback-counts.js";
import { Faults } from "./faults.js";
import type { BackendPair } from "./pair.js";

/** A call whose arguments were checked. */
export interface Call {
  readonly operation: string;
  /** Whether it is an operation, so that it is counted. */
  readonly isOperation?: boolean;
  readonly side: () => Side;
  /** The allocations whose contents must be present on the side where the call runs. */
  readonly needs: readonly Entry[];
  readonly writes: readonly Entry[];
  run(side: Side): void;
  /** Copies what the caller may change before the call is carried out. */
  own?(): void;
  /** Tells a caller that waits that the call was not carried out. */
  cancel?(error: BackendError): void;
}

/** The means to warn of contents that go back and forth. */
export interface Warning {
  readonly afterMoves: number;
  readonly warn: (message: string, report: FallbackReport) => void;
}

/** Moves what calls need, and carries them out in order: at once, or when the reads have ended that they wait for. */
export class FallbackCalls {
  readonly counts: FallbackCounts = new FallbackCounts();
  readonly fallbackListeners: Listeners<FallbackEvent> = new Listeners("onFallback");
  readonly #pair: BackendPair;
  readonly #warning: Warning;
  readonly #faults = new Faults();
  /** Ends the promises that callers wait for. */
  readonly #waiting = new Set<(error: BackendError) => void>();
  /** Calls that wait for a read; undefined if there is none under way. */
  #deferred: Call[] | undefined;
  #isWarned = false;

  constructor(pair: BackendPair, warning: Warning) {
    this.#pair = pair;
    this.#warning = warning;
  }

  /** Carries out a call that returns a promise, and then reports faults. */
  async ask(call: Omit<Call, "run">, run: (side: Side) => Promise<void>): Promise<void> {
    const { promise, resolve, reject } = withResolvers();
    this.#waiting.add(reject);
    try {
      this.tell({ ...call, run: (side) => void run(side).then(resolve, reject), cancel: reject });
      await promise;
    } finally {
      this.#waiting.delete(reject);
    }
    this.throwFault();
  }

  /** Carries out a call, now or after those that wait. */
  tell(call: Call): void {
    if (this.#deferred !== undefined) {
      call.own?.();
      this.#deferred.push(call);
      return;
    }
    const side = call.side();
    const missing = this.#missing(call, side);
    if (missing.every((entry) => this.#moveNow(call, entry, side))) {
      this.#carryOut(call, side, missing);
      return;
    }
    call.own?.();
    this.#deferred = [call];
    void this.#carryOutDeferred(this.#deferred);
  }

  throwFault(): void {
    this.#faults.throwKept();
  }

  /** Ends all calls that wait, and all promises, because the backends are lost or closed. */
  cancelAll(error: BackendError): void {
    this.#faults.forget();
    const calls = this.#deferred ?? [];
    this.#deferred = undefined;
    for (const call of calls) call.cancel?.(error);
    for (const end of [...this.#waiting]) end(error);
    this.#waiting.clear();
  }

  /** Throws `BUSY` while calls wait. */
  assertIdle(operation: string): void {
    if (this.#deferred === undefined) return;
    const message = "contents are being moved to another backend; await synchronize() first";
    throw new BackendError("BUSY", `${operation}: ${message}`, { operation });
  }

  /** Gives the allocations of a call memory on one side. Returns those whose contents must still be moved there. */
  #missing(call: Call, side: Side): readonly Entry[] {
    for (const entry of [...call.needs, ...call.writes]) makeRoom(entry, side, this.#pair.backends);
    return call.needs.filter((entry) => !entry.isPresent[side]);
  }

  /** Returns whether the contents could be moved without waiting. */
  #moveNow(call: Call, entry: Entry, to: Side): boolean {
    const { backends } = this.#pair;
    if (!backends[other(to)].capabilities.synchronousReads) return false;
    try {
      movePiecesSync(...endsOf(entry, to, backends), entry.bytes);
    } catch (error) {
      // The backend may be busy, or report an older fault, which is for the next promise. The call is made all the same.
      if ((error as Partial<BackendError>).code !== "BUSY") this.#faults.keep(error, call.operation);
      return false;
    }
    this.#moved(call, entry, to);
    return true;
  }

  async #move(call: Call, entry: Entry, to: Side, isGoing: () => boolean): Promise<void> {
    const move = (): Promise<void> => movePieces(...endsOf(entry, to, this.#pair.backends), entry.bytes);
    try {
      await move();
    } catch (error) {
      // What failed with the device or with `dispose` must not be reported by a fresh one.
      if (!isGoing()) return;
      // A read reports older faults of its backend once. They are for the next promise; the contents are still wanted.
      this.#faults.keep(error, call.operation);
      await move();
    }
    if (!isGoing()) return;
    this.#moved(call, entry, to);
  }

  async #carryOutDeferred(calls: Call[]): Promise<void> {
    // A loss or `dispose` takes the list away and cancels its calls.
    const isGoing = (): boolean => this.#deferred === calls;
    while (isGoing() && calls.length > 0) {
      const call = calls[0]!;
      try {
        const side = call.side();
        const missing = this.#missing(call, side);
        for (const entry of missing) {
          await this.#move(call, entry, side, isGoing);
          if (!isGoing()) return;
        }
        this.#carryOut(call, side, missing);
      } catch (error) {
        if (!isGoing()) return;
        const fault = toBackendError(error, "DEVICE_ERROR", call.operation);
        if (call.cancel !== undefined) call.cancel(fault);
        else {
          this.#faults.keep(fault, call.operation);
          this.#pair.reportError(fault);
        }
      }
      calls.shift();
    }
    if (isGoing()) this.#deferred = undefined;
  }

  #carryOut(call: Call, side: Side, moved: readonly Entry[]): void {
    call.run(side);
    for (const entry of call.writes) noteWrite(entry, side);
    if (!call.isOperation) return;
    this.counts.carriedOut(call.operation, side);
    if (side === 1) this.fallbackListeners.emit({ operation: call.operation, ...sizeOf(moved) });
  }

  #moved(call: Call, entry: Entry, to: Side): void {
    entry.isPresent[to] = true;
    entry.moves++;
    this.counts.moved(call.operation, entry.bytes, to);
    if (entry.moves >= this.#warning.afterMoves && !this.#isWarned) this.#warnOnce(entry);
  }

  #warnOnce(entry: Entry): void {
    this.#isWarned = true;
    const report = this.counts.report();
    const [first, second] = this.#pair.backends.map(({ name }) => name);
    const causes = report.operations
      .filter(({ moves }) => moves > 0)
      .map(({ operation, moves, movedBytes }) => `${operation}: ${moves} moves, ${movedBytes} bytes`);
    this.#warning.warn(
      `FallbackBackend: an allocation of ${entry.bytes} bytes was moved ${entry.moves} times between ${first} and ` +
        `${second}, which costs more than the calls themselves may (${causes.join("; ")})`,
      report,
    );
  }
}

function sizeOf(entries: readonly Entry[]): Pick<FallbackEvent, "moves" | "movedBytes"> {
  return { moves: entries.length, movedBytes: entries.reduce((total, { bytes }) => total + bytes, 0) };
}

function withResolvers(): {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
} {
  let resolve: () => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<void>((resolved, rejected) => {
    [resolve, reject] = [resolved, rejected];
  });
  return { promise, resolve, reject };
}
