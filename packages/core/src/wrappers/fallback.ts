import {
  assertReadsSynchronously,
  checkAlloc,
  checkFill,
  hostBytes,
  locate,
  takesScalar,
  withHandle,
} from "../arguments.js";
import type { AllocOptions, BackendState, ComputeBackend, HostBytes } from "../backend.js";
import type { Capabilities, MemoryStatistics } from "../capabilities.js";
import { type DType, dtypeBytes } from "../dtype.js";
import { copyOf, mapOperands } from "../entries.js";
import { BackendError, type ErrorCode, toBackendError } from "../errors.js";
import { type DeviceHandle, describe, HandleTable, type Operand } from "../handles.js";
import { Listeners } from "../listeners.js";
import { checkNames } from "../names.js";
import { Checks } from "../ops/checks.js";
import type { OperationName } from "../ops/index.js";
import { operationOf } from "../ops/lookup.js";
import { OperationMethods } from "../ops/methods.js";
import type { Operation } from "../ops/operation.js";
import { movePieces, movePiecesSync, type Place } from "../pieces.js";
import { callOperation } from "../recording/calls.js";
import type { Region } from "../region.js";
import { assertSupported, type Question, questionOf } from "../support.js";
import { lossOf } from "../swap.js";
import { FallbackCounts, type FallbackEvent, type FallbackReport } from "./fallback-counts.js";
import { weakerOf } from "./weaker.js";

/** 0: the first backend; 1: the second. */
type Side = 0 | 1;
const sides: readonly Side[] = [0, 1];

/** The allocation behind a handle. */
interface Entry {
  readonly bytes: number;
  /** Its handle on each backend. The second has none before it needs one. */
  readonly handles: [DeviceHandle, DeviceHandle | undefined];
  /** Whether each backend has the present contents. */
  readonly isPresent: [boolean, boolean];
  /** Whether nothing was ever written, so that zeros are the present contents on any backend. */
  isBlank: boolean;
  /** How often its contents were moved. */
  moves: number;
}

/** A call whose arguments were checked. */
interface Call {
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

export interface FallbackOptions {
  /** A warning is given when the contents of one allocation have been moved this often. Default: 16. */
  readonly warnAfterMoves?: number;
  /** Takes the warning, which is given once. Default: `console.warn`. */
  readonly warn?: (message: string, report: FallbackReport) => void;
}

/**
 * Runs on a second backend what the first does not support:
 *
 *   const backend = new FallbackBackend(createWebGpuBackend(), createCpuBackend());
 *   await backend.init();
 *
 * Allocations begin on the first backend. Before a call, the whole contents of its operands are moved to the
 * backend where it runs; those of outputs too, since a call may leave parts of them as they are. Copies and fills
 * run where the fewest bytes must be moved. Contents stay where they were last written. An allocation that was used
 * on the second backend occupies memory on both until it is freed.
 *
 * `report()` counts the calls and moves, `onFallback` reports each call that runs on the second backend, and a
 * warning is given once if the same contents keep going back and forth.
 *
 * Calls return at once, as on any backend. If the source of a move cannot be read synchronously, the call and
 * those after it are carried out in order when the read has ended; they were checked when they were made.
 * `copyDtoHSync` and `native(handle)` throw `BUSY` meanwhile; a failure then rejects the next promise.
 *
 * Both backends belong to this one: `init` opens both, `dispose` closes both, and if one is lost, all allocations are.
 */
export class FallbackBackend extends OperationMethods implements ComputeBackend {
  readonly name = "fallback";
  readonly #backends: readonly [ComputeBackend, ComputeBackend];
  readonly #table = new HandleTable<Entry>(takesScalar);
  /** Those that hold memory, also freed ones whose `free` is not carried out yet. */
  readonly #held = new Set<Entry>();
  readonly #counts = new FallbackCounts();
  readonly #warnAfterMoves: number;
  readonly #warn: (message: string, report: FallbackReport) => void;
  readonly #lostListeners = new Listeners<BackendError>("onLost");
  readonly #errorListeners = new Listeners<BackendError>("onError");
  readonly #fallbackListeners = new Listeners<FallbackEvent>("onFallback");
  /** Ends the promises that callers wait for. */
  readonly #waiting = new Set<(error: BackendError) => void>();
  /** Calls that wait for a read; undefined if there is none under way. */
  #deferred: Call[] | undefined;
  #isOpen = false;
  #isWarned = false;
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  #loss: BackendError | undefined;
  /** The first fault of a move or of a deferred call that no promise has reported yet. */
  #fault: BackendError | undefined;
  #liveBytes = 0;
  #peakBytes = 0;

  constructor(first: ComputeBackend, second: ComputeBackend, options: FallbackOptions = {}) {
    super();
    const checks = new Checks("FallbackBackend");
    for (const [argument, backend] of Object.entries({ first, second }))
      if (typeof backend?.alloc !== "function")
        checks.fail(argument, `is ${describe(backend)}; allowed: a backend`);
    if (first === second) checks.fail("second", "is the first backend; allowed: another one");
    checkNames("FallbackBackend", options, ["warnAfterMoves", "warn"]);
    this.#backends = [first, second];
    this.#warnAfterMoves = checks.count("warnAfterMoves", options.warnAfterMoves ?? 16, 1);
    this.#warn = options.warn ?? ((message) => console.warn(message));
    for (const backend of this.#backends) {
      backend.onLost((error) => this.#onLoss(error));
      backend.onError((error) => this.#errorListeners.emit(error));
    }
  }

  /** Calls and moves so far. */
  report(): FallbackReport {
    return this.#counts.report();
  }

  /** Calls the listener after each call that ran on the second backend. Returns a function that removes it. */
  onFallback(listener: (event: FallbackEvent) => void): () => void {
    return this.#fallbackListeners.add(listener);
  }

  // Lifecycle

  get state(): BackendState {
    if (this.#closing !== undefined) return "disposed";
    if (this.#loss !== undefined) return "lost";
    return this.#isOpen ? "open" : "new";
  }

  get capabilities(): Capabilities {
    if (!this.#isOpen) throw this.#unusable("capabilities");
    const [first, second] = this.#backends;
    return weakerOf(first.capabilities, second.capabilities);
  }

  init(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(this.#unusable("init"));
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
    const results = await Promise.allSettled(this.#backends.map((backend) => backend.init()));
    if (this.#closing !== undefined) throw this.#unusable("init");
    for (const result of results) if (result.status === "rejected") throw result.reason;
    for (const backend of this.#backends) {
      const loss = lossOf(backend);
      if (loss !== undefined) throw loss;
    }
    this.#loss = undefined;
    this.#isOpen = true;
  }

  #onLoss(error: BackendError): void {
    if (this.#closing !== undefined || !this.#isOpen) return;
    this.#opening = undefined;
    if (this.#loss !== undefined) return;
    this.#loss = error;
    this.#fault = undefined;
    this.#table.lose();
    this.#liveBytes = 0;
    this.#cancelAll(this.#unusable("FallbackBackend"));
    // The other backend still holds its part.
    for (const entry of this.#held) this.#release(entry);
    this.#lostListeners.emit(error);
  }

  #cancelAll(error: BackendError): void {
    const calls = this.#deferred ?? [];
    this.#deferred = undefined;
    for (const call of calls) call.cancel?.(error);
    for (const end of [...this.#waiting]) end(error);
    this.#waiting.clear();
  }

  #release(entry: Entry): void {
    this.#held.delete(entry);
    for (const side of sides) {
      const handle = entry.handles[side];
      if (handle !== undefined && this.#backends[side].state === "open") this.#backends[side].free(handle);
    }
  }

  flush(): void {
    this.#assertOpen("flush");
    for (const backend of this.#backends) backend.flush();
  }

  async synchronize(): Promise<void> {
    this.#assertOpen("synchronize");
    await this.#ask({ operation: "synchronize", side: () => 0, needs: [], writes: [] }, async () => {
      const results = await Promise.allSettled(this.#backends.map((backend) => backend.synchronize()));
      for (const result of results) if (result.status === "rejected") throw result.reason;
    });
  }

  dispose(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#table.clear();
    this.#held.clear();
    this.#liveBytes = 0;
    this.#cancelAll(this.#error("DISPOSED", "dispose", "the backend was disposed of"));
    const results = await Promise.allSettled(this.#backends.map((backend) => backend.dispose()));
    for (const result of results) if (result.status === "rejected") throw result.reason;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.#lostListeners.add(listener, this.#closing === undefined ? this.#loss : undefined);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#errorListeners.add(listener);
  }

  supports(operation: OperationName | Operation, question?: Question): boolean {
    return this.#backends.some((backend) => backend.supports(operation, question));
  }

  memory(): MemoryStatistics {
    const isOpen = this.state === "open";
    const inner = isOpen ? this.#backends.map((backend) => backend.memory()) : [];
    const sum = (of: (statistics: MemoryStatistics) => number): number =>
      inner.reduce((total, statistics) => total + of(statistics), 0);
    return {
      liveAllocations: this.#table.size,
      liveBytes: this.#liveBytes,
      peakBytes: this.#peakBytes,
      reservedBytes: sum(({ reservedBytes }) => reservedBytes),
      pooledBytes: sum(({ pooledBytes }) => pooledBytes),
      poolHits: sum(({ poolHits }) => poolHits),
      poolMisses: sum(({ poolMisses }) => poolMisses),
    };
  }

  trim(): void {
    this.#assertOpen("trim");
    for (const backend of this.#backends) backend.trim();
  }

  /**
   * Returns the native objects of the first backend; for a handle, those of the backend that has its contents. The
   * caller may write to them, so the contents count as present only there.
   */
  native(handle?: DeviceHandle): unknown {
    this.#assertOpen("native");
    if (handle === undefined) return this.#backends[0].native();
    const entry = this.#table.get(handle, "native", "handle");
    this.#assertIdle("native");
    const side = homeOf(entry);
    this.#wrote(entry, side);
    return this.#backends[side].native(entry.handles[side]);
  }

  // Memory

  alloc(bytes: number, options: AllocOptions = {}): DeviceHandle {
    this.#assertOpen("alloc");
    const [first] = this.#backends;
    const live = `${this.#table.size} live allocations hold ${this.#liveBytes} bytes`;
    const zero = checkAlloc(bytes, options, first.capabilities.limits, live);
    const handle = first.alloc(bytes, { zero });
    const entry: Entry = {
      ...{ bytes, handles: [handle, undefined], isPresent: [true, false], isBlank: true, moves: 0 },
    };
    this.#held.add(entry);
    this.#liveBytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#liveBytes);
    return this.#table.issue(entry);
  }

  free(handle: DeviceHandle): void {
    this.#assertOpen("free");
    const entry = this.#table.remove(handle, "free", "handle");
    this.#liveBytes -= entry.bytes;
    this.#tell({
      ...{ operation: "free", side: () => 0, needs: [], writes: [] },
      run: () => this.#release(entry),
    });
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    this.#assertOpen("copyHtoD");
    let bytes = hostBytes("copyHtoD", "source", source);
    const region = this.#region("copyHtoD", "destination", destination, bytes.byteLength, 1);
    const own = (): void => {
      bytes = bytes.slice();
    };
    this.#write("copyHtoD", region, (backend, to) => backend.copyHtoD(to, bytes), own);
  }

  fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    this.#assertOpen("fill");
    checkFill(value, count, dtype);
    const size = dtypeBytes[dtype];
    const region = this.#region("fill", "destination", destination, count * size, size);
    this.#write("fill", region, (backend, to) => backend.fill(to, value, count, dtype));
  }

  #write(
    operation: string,
    { memory: entry, byteOffset, byteLength }: Region<Entry>,
    write: (backend: ComputeBackend, to: Operand) => void,
    own: () => void = () => {},
  ): void {
    if (byteLength === 0) return;
    // Contents that are replaced as a whole need not be moved, and may come back to the first backend.
    const coversAll = byteLength === entry.bytes;
    this.#tell({
      ...{ operation, needs: coversAll ? [] : [entry], writes: [entry], own },
      side: () => (coversAll ? 0 : homeOf(entry)),
      run: (side) => write(this.#backends[side], { handle: entry.handles[side]!, byteOffset }),
    });
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    this.#assertOpen("copyDtoD");
    const checks = new Checks("copyDtoD");
    checks.count("bytes", bytes);
    const to = this.#region("copyDtoD", "destination", destination, bytes, 1);
    const from = this.#region("copyDtoD", "source", source, bytes, 1);
    checks.disjoint({ argument: "destination", region: to }, { argument: "source", region: from });
    if (bytes === 0) return;
    const needs = [from.memory, to.memory];
    const place = ({ memory, byteOffset }: Region<Entry>, side: Side): Operand => ({
      ...{ handle: memory.handles[side]!, byteOffset },
    });
    this.#tell({
      ...{ operation: "copyDtoD", needs, writes: [to.memory] },
      side: () => (missingBytes(needs, 1) < missingBytes(needs, 0) ? 1 : 0),
      run: (side) => this.#backends[side].copyDtoD(place(to, side), place(from, side), bytes),
    });
  }

  async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    this.#assertOpen("copyDtoH");
    const bytes = hostBytes("copyDtoH", "destination", destination);
    const { memory, byteOffset } = this.#region("copyDtoH", "source", source, bytes.byteLength, 1);
    const call = { operation: "copyDtoH", side: () => homeOf(memory), needs: [], writes: [] };
    await this.#ask(call, (side) =>
      this.#backends[side].copyDtoH(bytes, { handle: memory.handles[side]!, byteOffset }),
    );
  }

  /** As `ComputeBackend.copyDtoHSync`; throws `BUSY` while calls wait for contents to be moved. */
  copyDtoHSync(destination: HostBytes, source: Operand): void {
    this.#assertOpen("copyDtoHSync");
    assertReadsSynchronously(this);
    const bytes = hostBytes("copyDtoHSync", "destination", destination);
    const { memory, byteOffset } = this.#region("copyDtoHSync", "source", source, bytes.byteLength, 1);
    this.#assertIdle("copyDtoHSync");
    const side = homeOf(memory);
    this.#backends[side].copyDtoHSync(bytes, { handle: memory.handles[side]!, byteOffset });
    this.#throwFault();
  }

  // Operations

  override run(given: OperationName | Operation, args: object): void {
    const operation = operationOf("run", given);
    const { name } = operation;
    this.#assertOpen(name);
    assertSupported(this, operation, args);
    const problem = operation.resolve(args, {
      region: (argument, operand, elements, dtype, before = 0) => {
        const size = dtypeBytes[dtype];
        return this.#region(name, argument, operand, elements * size, size, before * size);
      },
    });
    if (problem === undefined) return;
    const entries = new Map<DeviceHandle, Entry>();
    const writes: Entry[] = [];
    mapOperands(operation, args, (argument, operand) => {
      const handle = typeof operand === "object" ? operand.handle : operand;
      const entry = this.#table.get(handle, name, argument);
      entries.set(handle, entry);
      if (operation.arguments[argument.replace(/\[.*/, "")]!.role !== "reads") writes.push(entry);
      return operand;
    });
    const question = questionOf(operation, args);
    let held = args;
    this.#tell({
      ...{ operation: name, isOperation: true, needs: [...new Set(entries.values())], writes },
      side: () => (this.#backends[0].supports(operation, question) ? 0 : 1),
      own: () => {
        held = copyOf(operation, args);
      },
      run: (side) => {
        const translate = (handle: DeviceHandle): DeviceHandle => entries.get(handle)!.handles[side]!;
        const translated = mapOperands(operation, held, (_, operand) => withHandle(operand, translate));
        callOperation(this.#backends[side], operation, translated);
      },
    });
  }

  // Carrying out calls

  /** Carries out a call that returns a promise, and then reports faults. */
  async #ask(call: Omit<Call, "run">, run: (side: Side) => Promise<void>): Promise<void> {
    const { promise, resolve, reject } = withResolvers();
    this.#waiting.add(reject);
    try {
      this.#tell({ ...call, run: (side) => void run(side).then(resolve, reject), cancel: reject });
      await promise;
    } finally {
      this.#waiting.delete(reject);
    }
    this.#throwFault();
  }

  /** Carries out a call, now or after those that wait. */
  #tell(call: Call): void {
    if (this.#deferred !== undefined) {
      call.own?.();
      this.#deferred.push(call);
      return;
    }
    const side = call.side();
    const missing = this.#makeRoom(call, side);
    if (missing.every((entry) => this.#moveNow(call, entry, side))) {
      this.#carryOut(call, side, missing);
      return;
    }
    call.own?.();
    this.#deferred = [call];
    void this.#carryOutDeferred(this.#deferred);
  }

  /** Gives the allocations of a call memory on one side. Returns those whose contents must still be moved there. */
  #makeRoom(call: Call, side: Side): readonly Entry[] {
    for (const entry of [...call.needs, ...call.writes])
      if (entry.handles[side] === undefined) {
        entry.handles[side] = this.#backends[side].alloc(entry.bytes, { zero: entry.isBlank });
        entry.isPresent[side] = entry.isBlank;
      }
    return call.needs.filter((entry) => !entry.isPresent[side]);
  }

  /** Returns whether the contents could be moved without waiting. */
  #moveNow(call: Call, entry: Entry, to: Side): boolean {
    if (!this.#backends[other(to)].capabilities.synchronousReads) return false;
    try {
      movePiecesSync(...this.#ends(entry, to), entry.bytes);
    } catch (error) {
      // The backend may be busy, or report an older fault, which is for the next promise. The call is made all the same.
      if ((error as Partial<BackendError>).code !== "BUSY") this.#keepFault(call, error);
      return false;
    }
    this.#moved(call, entry, to);
    return true;
  }

  async #move(call: Call, entry: Entry, to: Side, isGoing: () => boolean): Promise<void> {
    const move = (): Promise<void> => movePieces(...this.#ends(entry, to), entry.bytes);
    try {
      await move();
    } catch (error) {
      // What failed with the device or with `dispose` must not be reported by a fresh one.
      if (!isGoing()) return;
      // A read reports older faults of its backend once. They are for the next promise; the contents are still wanted.
      this.#keepFault(call, error);
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
        const missing = this.#makeRoom(call, side);
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
          this.#keepFault(call, fault);
          this.#errorListeners.emit(fault);
        }
      }
      calls.shift();
    }
    if (isGoing()) this.#deferred = undefined;
  }

  #carryOut(call: Call, side: Side, moved: readonly Entry[]): void {
    call.run(side);
    for (const entry of call.writes) this.#wrote(entry, side);
    if (!call.isOperation) return;
    this.#counts.carriedOut(call.operation, side);
    if (side === 1) this.#fallbackListeners.emit({ operation: call.operation, ...sizeOf(moved) });
  }

  #wrote(entry: Entry, side: Side): void {
    entry.isBlank = false;
    entry.isPresent[side] = true;
    entry.isPresent[other(side)] = false;
  }

  #ends(entry: Entry, to: Side): readonly [Place, Place] {
    const [destination, source] = [to, other(to)].map((side) => ({
      ...{ backend: this.#backends[side as Side], handle: entry.handles[side as Side]!, byteOffset: 0 },
    }));
    return [source!, destination!];
  }

  #moved(call: Call, entry: Entry, to: Side): void {
    entry.isPresent[to] = true;
    entry.moves++;
    this.#counts.moved(call.operation, entry.bytes, to);
    if (entry.moves >= this.#warnAfterMoves && !this.#isWarned) this.#warnOnce(entry);
  }

  #warnOnce(entry: Entry): void {
    this.#isWarned = true;
    const report = this.report();
    const [first, second] = this.#backends.map(({ name }) => name);
    const causes = report.operations
      .filter(({ moves }) => moves > 0)
      .map(({ operation, moves, movedBytes }) => `${operation}: ${moves} moves, ${movedBytes} bytes`);
    this.#warn(
      `FallbackBackend: an allocation of ${entry.bytes} bytes was moved ${entry.moves} times between ${first} and ` +
        `${second}, which costs more than the calls themselves may (${causes.join("; ")})`,
      report,
    );
  }

  #keepFault(call: Call, error: unknown): void {
    this.#fault ??= toBackendError(error, "DEVICE_ERROR", call.operation);
  }

  #throwFault(): void {
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault;
  }

  #assertIdle(operation: string): void {
    if (this.#deferred === undefined) return;
    throw this.#error(
      "BUSY",
      operation,
      "contents are being moved to another backend; await synchronize() first",
    );
  }

  #region(
    operation: string,
    argument: string,
    operand: Operand,
    byteLength: number,
    alignment: number,
    before = 0,
  ): Region<Entry> {
    const { entry, byteOffset } = locate(
      this.#table,
      operation,
      argument,
      operand,
      byteLength,
      alignment,
      before,
    );
    return { memory: entry, byteOffset, byteLength };
  }

  #assertOpen(operation: string): void {
    if (this.state !== "open") throw this.#unusable(operation);
  }

  /** Returns the error that says why the backend cannot be used. */
  #unusable(operation: string): BackendError {
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

function other(side: Side): Side {
  return side === 0 ? 1 : 0;
}

/** Returns where the contents can be used without a move: on the first backend, if they are there. */
function homeOf(entry: Entry): Side {
  return entry.isPresent[0] ? 0 : 1;
}

/** Returns how many bytes must be moved to a backend before it has the contents of all entries. */
function missingBytes(entries: readonly Entry[], side: Side): number {
  let bytes = 0;
  for (const entry of entries) if (!entry.isPresent[side] && !entry.isBlank) bytes += entry.bytes;
  return bytes;
}
