import {
  assertReadsSynchronously,
  checkAlloc,
  checkFill,
  hostBytes,
  regionIn,
  withHandle,
} from "../arguments.js";
import type { AllocOptions, BackendState, ComputeBackend, HostBytes } from "../backend.js";
import type { Capabilities, MemoryStatistics } from "../capabilities.js";
import { type DType, dtypeBytes } from "../dtype.js";
import { mapOperands } from "../entries.js";
import type { BackendError } from "../errors.js";
import { type DeviceHandle, describe, HandleTable, type Operand } from "../handles.js";
import { checkNames } from "../names.js";
import { Checks } from "../ops/checks.js";
import type { OperationName } from "../ops/index.js";
import { operationOf, scalarMayStand } from "../ops/lookup.js";
import { OperationMethods } from "../ops/methods.js";
import type { Operation } from "../ops/operation.js";
import { callOperation, operationCall } from "../recording/calls.js";
import type { Region } from "../region.js";
import { assertSupported, type Question, questionOf } from "../support.js";
import { FallbackCalls } from "./fallback-calls.js";
import {
  type Entry,
  homeOf,
  missingBytes,
  newEntry,
  noteWrite,
  release,
  type Side,
} from "./fallback-contents.js";
import type { FallbackEvent, FallbackReport } from "./fallback-counts.js";
import { BackendPair, checkTwoBackends } from "./pair.js";
import { weakerOf } from "./weaker.js";

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
  readonly #pair: BackendPair;
  readonly #calls: FallbackCalls;
  readonly #table = new HandleTable<Entry>(scalarMayStand);
  /** Those that hold memory, also freed ones whose `free` is not carried out yet. */
  readonly #held = new Set<Entry>();
  #liveBytes = 0;
  #peakBytes = 0;

  constructor(first: ComputeBackend, second: ComputeBackend, options: FallbackOptions = {}) {
    super();
    checkTwoBackends("FallbackBackend", first, second);
    checkNames("FallbackBackend", options, ["warnAfterMoves", "warn"]);
    const { warnAfterMoves = 16, warn = (message) => console.warn(message) } = options;
    const checks = new Checks("FallbackBackend");
    const afterMoves = checks.count("warnAfterMoves", warnAfterMoves, 1);
    if (typeof warn !== "function") checks.fail("warn", `is ${describe(warn)}; allowed: a function`);
    this.#pair = new BackendPair(first, second, "FallbackBackend", (error) => this.#onLoss(error));
    this.#calls = new FallbackCalls(this.#pair, { afterMoves, warn });
  }

  /** Calls and moves so far. */
  report(): FallbackReport {
    return this.#calls.counts.report();
  }

  /** Calls the listener after each call that ran on the second backend. Returns a function that removes it. */
  onFallback(listener: (event: FallbackEvent) => void): () => void {
    return this.#calls.fallbackListeners.add(listener);
  }

  // Lifecycle

  get state(): BackendState {
    return this.#pair.state;
  }

  get capabilities(): Capabilities {
    if (!this.#pair.wasOpen) throw this.#pair.unusable("capabilities");
    const [first, second] = this.#pair.backends;
    return weakerOf(first.capabilities, second.capabilities);
  }

  init(): Promise<void> {
    return this.#pair.init();
  }

  #onLoss(error: BackendError): void {
    this.#table.lose();
    this.#liveBytes = 0;
    this.#calls.cancelAll(error);
    // The other backend still holds its part.
    for (const entry of this.#held) this.#release(entry);
  }

  #release(entry: Entry): void {
    this.#held.delete(entry);
    release(entry, this.#pair.backends);
  }

  flush(): void {
    this.#pair.assertOpen("flush");
    for (const backend of this.#pair.backends) backend.flush();
  }

  async synchronize(): Promise<void> {
    this.#pair.assertOpen("synchronize");
    await this.#calls.ask({ operation: "synchronize", side: () => 0, needs: [], writes: [] }, () =>
      this.#pair.synchronize(),
    );
  }

  dispose(): Promise<void> {
    return this.#pair.dispose((error) => {
      this.#table.clear();
      this.#held.clear();
      this.#liveBytes = 0;
      this.#calls.cancelAll(error);
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.#pair.onLost(listener);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#pair.onError(listener);
  }

  supports(operation: OperationName | Operation, question?: Question): boolean {
    return this.#pair.backends.some((backend) => backend.supports(operation, question));
  }

  memory(): MemoryStatistics {
    const isOpen = this.state === "open";
    const inner = isOpen ? this.#pair.backends.map((backend) => backend.memory()) : [];
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
    this.#pair.assertOpen("trim");
    for (const backend of this.#pair.backends) backend.trim();
  }

  /**
   * Returns the native objects of the first backend; for a handle, those of the backend that has its contents. The
   * caller may write to them, so the contents count as present only there.
   */
  native(handle?: DeviceHandle): unknown {
    this.#pair.assertOpen("native");
    if (handle === undefined) return this.#pair.backends[0].native();
    const entry = this.#table.get(handle, "native", "handle");
    this.#calls.assertIdle("native");
    const side = homeOf(entry);
    noteWrite(entry, side);
    return this.#pair.backends[side].native(entry.handles[side]);
  }

  // Memory

  alloc(bytes: number, options: AllocOptions = {}): DeviceHandle {
    this.#pair.assertOpen("alloc");
    const [first] = this.#pair.backends;
    const live = () => `${this.#table.size} live allocations hold ${this.#liveBytes} bytes`;
    const zero = checkAlloc(bytes, options, first.capabilities.limits, live);
    const handle = first.alloc(bytes, { zero });
    const entry = newEntry(bytes, handle);
    this.#held.add(entry);
    this.#liveBytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#liveBytes);
    return this.#table.issue(entry);
  }

  free(handle: DeviceHandle): void {
    this.#pair.assertOpen("free");
    const entry = this.#table.remove(handle, "free", "handle");
    this.#liveBytes -= entry.bytes;
    this.#calls.tell({
      ...{ operation: "free", side: () => 0, needs: [], writes: [] },
      run: () => this.#release(entry),
    });
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    this.#pair.assertOpen("copyHtoD");
    let bytes = hostBytes("copyHtoD", "source", source);
    const region = regionIn(this.#table, "copyHtoD", "destination", destination, bytes.byteLength, 1);
    const own = (): void => {
      bytes = bytes.slice();
    };
    this.#write("copyHtoD", region, (backend, to) => backend.copyHtoD(to, bytes), own);
  }

  fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    this.#pair.assertOpen("fill");
    checkFill(value, count, dtype);
    const size = dtypeBytes[dtype];
    const region = regionIn(this.#table, "fill", "destination", destination, count * size, size);
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
    this.#calls.tell({
      ...{ operation, needs: coversAll ? [] : [entry], writes: [entry], own },
      side: () => (coversAll ? 0 : homeOf(entry)),
      run: (side) => write(this.#pair.backends[side], { handle: entry.handles[side]!, byteOffset }),
    });
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    this.#pair.assertOpen("copyDtoD");
    const checks = new Checks("copyDtoD");
    checks.count("bytes", bytes);
    const to = regionIn(this.#table, "copyDtoD", "destination", destination, bytes, 1);
    const from = regionIn(this.#table, "copyDtoD", "source", source, bytes, 1);
    checks.disjoint({ argument: "destination", region: to }, { argument: "source", region: from });
    if (bytes === 0) return;
    const needs = [from.memory, to.memory];
    const place = ({ memory, byteOffset }: Region<Entry>, side: Side): Operand => ({
      ...{ handle: memory.handles[side]!, byteOffset },
    });
    this.#calls.tell({
      ...{ operation: "copyDtoD", needs, writes: [to.memory] },
      side: () => (missingBytes(needs, 1) < missingBytes(needs, 0) ? 1 : 0),
      run: (side) => this.#pair.backends[side].copyDtoD(place(to, side), place(from, side), bytes),
    });
  }

  async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    this.#pair.assertOpen("copyDtoH");
    const bytes = hostBytes("copyDtoH", "destination", destination);
    const { memory, byteOffset } = regionIn(this.#table, "copyDtoH", "source", source, bytes.byteLength, 1);
    const call = { operation: "copyDtoH", side: () => homeOf(memory), needs: [], writes: [] };
    await this.#calls.ask(call, (side) =>
      this.#pair.backends[side].copyDtoH(bytes, { handle: memory.handles[side]!, byteOffset }),
    );
  }

  /** As `ComputeBackend.copyDtoHSync`; throws `BUSY` while calls wait for contents to be moved. */
  copyDtoHSync(destination: HostBytes, source: Operand): void {
    this.#pair.assertOpen("copyDtoHSync");
    assertReadsSynchronously(this);
    const bytes = hostBytes("copyDtoHSync", "destination", destination);
    const { memory, byteOffset } = regionIn(
      this.#table,
      "copyDtoHSync",
      "source",
      source,
      bytes.byteLength,
      1,
    );
    this.#calls.assertIdle("copyDtoHSync");
    const side = homeOf(memory);
    this.#pair.backends[side].copyDtoHSync(bytes, { handle: memory.handles[side]!, byteOffset });
    this.#calls.throwFault();
  }

  // Operations

  override run(given: OperationName | Operation, args: object): void {
    const operation = operationOf("run", given);
    const { name } = operation;
    this.#pair.assertOpen(name);
    assertSupported(this, operation, args);
    const problem = operation.resolve(args, {
      region: (argument, operand, elements, dtype, before = 0) => {
        const size = dtypeBytes[dtype];
        return regionIn(this.#table, name, argument, operand, elements * size, size, before * size);
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
    this.#calls.tell({
      ...{ operation: name, isOperation: true, needs: [...new Set(entries.values())], writes },
      side: () => (this.#pair.backends[0].supports(operation, question) ? 0 : 1),
      own: () => {
        held = operationCall(operation, args).args;
      },
      run: (side) => {
        const translate = (handle: DeviceHandle): DeviceHandle => entries.get(handle)!.handles[side]!;
        const translated = mapOperands(operation, held, (_, operand) => withHandle(operand, translate));
        callOperation(this.#pair.backends[side], operation, translated);
      },
    });
  }
}
