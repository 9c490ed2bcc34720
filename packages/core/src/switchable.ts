import {
  assertReadsSynchronously,
  checkAlloc,
  checkFill,
  hostBytes,
  locate,
  regionIn,
  withHandle,
} from "./arguments.js";
import type { AllocOptions, BackendState, ComputeBackend, HostBytes } from "./backend.js";
import type { Capabilities, MemoryStatistics } from "./capabilities.js";
import { runsPlainly } from "./create.js";
import { type DType, dtypeBytes } from "./dtype.js";
import { assertHeld, type BoundOperand, copyOf, type Entry, innerHandle, mapOperands } from "./entries.js";
import type { BackendError } from "./errors.js";
import { type DeviceHandle, describe, HandleTable, type Operand } from "./handles.js";
import { Checks } from "./ops/checks.js";
import type { OperationName } from "./ops/index.js";
import { operationOf, scalarMayStand } from "./ops/lookup.js";
import { OperationMethods } from "./ops/methods.js";
import type { Operation } from "./ops/operation.js";
import type { Binder } from "./ops/reader.js";
import {
  callOperation,
  copyCall,
  fillCall,
  nameOf,
  operationCall,
  type RecordedCall,
} from "./recording/calls.js";
import { type Collected, record } from "./recording/parts.js";
import type { Recording, Vary } from "./recording/recording.js";
import { SwitchedPlayer } from "./recording/switched.js";
import type { BackendRegistry } from "./registry.js";
import { BackendSlot } from "./slot.js";
import { assertSupported, type Question } from "./support.js";
import type { LostAllocation, SwapReport } from "./swap.js";

/**
 * A backend that can be exchanged for another while a program runs:
 *
 *   const backend = new SwitchableBackend(registry, ["webgpu", "cpu"]);
 *   await backend.init();
 *   ...
 *   await backend.use("cpu");
 *
 * `use` lets the current backend finish, moves every live allocation and closes the old one. All handles stay
 * valid. A swap that fails rejects and changes nothing. Other code may make calls during a swap: calls made
 * while data is being moved are checked at once and carried out afterwards, in order.
 *
 * If the backend in use loses its device, every call throws `DEVICE_LOST` until `use` (of any backend, also
 * the same one) or `init` (of the chain) opens a fresh one. Handles stay valid then too, but the contents are
 * gone: any use but `free` throws `DEVICE_LOST` until one `copyHtoD` or `fill` has written all bytes of the
 * allocation. `lost` and the report of the swap list these allocations.
 */
export class SwitchableBackend extends OperationMethods implements ComputeBackend {
  readonly name = "switchable";
  readonly #table = new HandleTable<Entry>(scalarMayStand);
  readonly #slot: BackendSlot;
  #collected: Collected = () => {};
  #liveBytes = 0;
  #peakBytes = 0;

  /** `chain` lists the backends that `init` tries to open, in this order. Default: all that are registered. */
  constructor(registry: BackendRegistry, chain?: string | readonly string[]) {
    super();
    if (typeof (registry as Partial<BackendRegistry> | null | undefined)?.open !== "function")
      new Checks("SwitchableBackend").fail(
        "registry",
        `is ${describe(registry)}; allowed: a BackendRegistry`,
      );
    this.#slot = new BackendSlot(registry, chain === undefined ? registry.names : chain, this.#table);
  }

  /** The name of the backend in use; empty before `init` has resolved. */
  get current(): string {
    return this.#slot.current;
  }

  /** The backend in use, for its own features such as profiling. It has handles of its own. */
  get inner(): ComputeBackend {
    return this.#slot.assertOpen("inner");
  }

  /** Live allocations whose contents were lost with a device and have not been written again. */
  get lost(): readonly LostAllocation[] {
    return this.#slot.lost;
  }

  // Lifecycle

  get state(): BackendState {
    return this.#slot.state;
  }

  get capabilities(): Capabilities {
    const { inner } = this.#slot;
    if (inner === undefined) throw this.#slot.unusable("capabilities");
    return inner.capabilities;
  }

  /** Opens the first backend of the chain that can be opened; after a loss, does so again. */
  init(): Promise<void> {
    return this.#slot.init();
  }

  /**
   * Switches to another registered backend. Swaps requested at the same time run one after another. Rejects,
   * and changes nothing, if the other backend cannot be opened, cannot hold the live allocations or is lost,
   * or if the current one reports a fault or is lost meanwhile. If the current one was already lost, nothing
   * can be moved, and the report lists what is lost.
   */
  use(name: string): Promise<SwapReport> {
    return this.#slot.use(name);
  }

  flush(): void {
    this.#slot.assertOpen("flush");
    this.#slot.tell((inner) => inner.flush());
  }

  async synchronize(): Promise<void> {
    await this.#slot.ask("synchronize", (inner) => inner.synchronize());
  }

  dispose(): Promise<void> {
    this.#liveBytes = 0;
    return this.#slot.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.#slot.onLost(listener);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#slot.onError(listener);
  }

  supports(operation: OperationName | Operation, question?: Question): boolean {
    return this.#slot.inner?.supports(operation, question) ?? false;
  }

  memory(): MemoryStatistics {
    const inner = this.#slot.inner?.memory();
    return {
      liveAllocations: this.#table.size,
      liveBytes: this.#liveBytes,
      peakBytes: this.#peakBytes,
      reservedBytes: inner?.reservedBytes ?? 0,
      pooledBytes: (inner?.pooledBytes ?? 0) + this.#slot.spares.bytes,
      poolHits: inner?.poolHits ?? 0,
      poolMisses: inner?.poolMisses ?? 0,
    };
  }

  trim(): void {
    this.#slot.assertOpen("trim");
    this.#slot.tell((inner) => {
      this.#slot.spares.release(inner);
      inner.trim();
    });
  }

  /**
   * As `ComputeBackend.native`, of the backend in use. Throws `BUSY` for a handle while a swap moves the allocations: the object
   * would lack what calls have written meanwhile, and what is written to it might not be moved.
   */
  native(handle?: DeviceHandle): unknown {
    const inner = this.#slot.assertOpen("native");
    if (handle === undefined) return inner.native();
    const entry = this.#table.get(handle, "native", "handle");
    assertHeld(entry, "native", "handle");
    this.#slot.assertNotMoving("native", "await use() first");
    return entry.inner === undefined ? undefined : inner.native(entry.inner);
  }

  // Memory

  alloc(bytes: number, options: AllocOptions = {}): DeviceHandle {
    const inner = this.#slot.assertOpen("alloc");
    const { isDeferring, spares } = this.#slot;
    const spare = isDeferring ? undefined : spares.take(inner, bytes, options);
    const entry: Entry = spare ?? { bytes, inner: undefined, lost: false };
    // A backend of `createBackend` makes the same checks.
    if (spare === undefined && !isDeferring && runsPlainly(inner, "alloc"))
      entry.inner = spares.allocate(inner, bytes, options);
    else if (spare === undefined) {
      const live = () => `${this.#table.size} live allocations hold ${this.#liveBytes} bytes`;
      const zero = checkAlloc(bytes, options, inner.capabilities.limits, live);
      this.#slot.tell((current) => {
        entry.inner = spares.allocate(current, bytes, { zero });
      });
    }
    this.#liveBytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#liveBytes);
    return this.#table.issue(entry);
  }

  free(handle: DeviceHandle): void {
    const current = this.#slot.assertOpen("free");
    const entry = this.#table.remove(handle, "free", "handle");
    this.#liveBytes -= entry.bytes;
    const { isDeferring, spares } = this.#slot;
    if (!isDeferring && spares.keep(current, entry)) return;
    if (!isDeferring && entry.inner !== undefined) current.free(entry.inner);
    else
      this.#slot.tell((inner) => {
        // If a deferred alloc failed, there is nothing to free.
        if (entry.inner !== undefined) inner.free(entry.inner);
      });
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    this.#slot.assertOpen("copyHtoD");
    const given = hostBytes("copyHtoD", "source", source);
    // The caller may change its array before a deferred call is carried out.
    const bytes = !this.#slot.isDeferring ? given : given.slice();
    this.#write("copyHtoD", destination, bytes.byteLength, 1, (inner, to) => inner.copyHtoD(to, bytes));
  }

  async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    this.#slot.assertOpen("copyDtoH");
    // Take its length now: the array may shrink or grow before a deferred call is carried out.
    const bytes = hostBytes("copyDtoH", "destination", destination);
    const operand = this.#bind("copyDtoH", "source", source, bytes.byteLength, 1);
    await this.#slot.ask("copyDtoH", (inner) => inner.copyDtoH(bytes, operand()));
  }

  /** As `ComputeBackend.copyDtoHSync`; throws `BUSY` while a swap moves the allocations. */
  copyDtoHSync(destination: HostBytes, source: Operand): void {
    assertReadsSynchronously(this.#slot.assertOpen("copyDtoHSync"));
    const bytes = hostBytes("copyDtoHSync", "destination", destination);
    const operand = this.#bind("copyDtoHSync", "source", source, bytes.byteLength, 1);
    this.#slot.askNow("copyDtoHSync", (inner) => inner.copyDtoHSync(bytes, operand()));
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    if (this.#slot.isRecording) {
      this.#collect(copyCall(destination, source, bytes));
      return;
    }
    this.#slot.assertOpen("copyDtoD");
    this.#checkCopy(destination, source, bytes);
    const to = this.#bind("copyDtoD", "destination", destination, bytes, 1);
    const from = this.#bind("copyDtoD", "source", source, bytes, 1);
    this.#slot.tell((inner) => inner.copyDtoD(to(), from(), bytes));
  }

  fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    if (this.#slot.isRecording) {
      this.#collect(fillCall(destination, value, count, dtype));
      return;
    }
    this.#slot.assertOpen("fill");
    checkFill(value, count, dtype);
    const elementBytes = dtypeBytes[dtype];
    const byteLength = count * elementBytes;
    this.#write("fill", destination, byteLength, elementBytes, (inner, to) =>
      inner.fill(to, value, count, dtype),
    );
  }

  /** Makes a call that only writes. If it covers all of an allocation, the contents are no longer lost. */
  #write(
    operation: string,
    destination: Operand,
    byteLength: number,
    alignment: number,
    write: (inner: ComputeBackend, to: Operand) => void,
  ): void {
    const argument = "destination";
    const { entry, byteOffset } = locate(
      this.#table,
      operation,
      argument,
      destination,
      byteLength,
      alignment,
    );
    const coversAll = byteLength === entry.bytes;
    if (!coversAll) assertHeld(entry, operation, argument);
    const wasLost = entry.lost;
    // Now, for the calls after this one; and again below, in case an earlier deferred one fails.
    entry.lost = false;
    this.#slot.tell((inner) => {
      const stillLost = wasLost || entry.lost;
      if (coversAll) entry.lost = false;
      try {
        write(inner, { handle: innerHandle(entry, operation, argument), byteOffset });
      } catch (error) {
        entry.lost = stillLost;
        throw error;
      }
    });
  }

  // Operations

  override run(given: OperationName | Operation, args: object): void {
    const operation = operationOf("run", given);
    const { name } = operation;
    if (this.#slot.isRecording) {
      this.#collect(operationCall(operation, args));
      return;
    }
    const inner = this.#slot.assertOpen(name);
    if (!this.#slot.isDeferring) {
      if (runsPlainly(inner, name) && inner.runThrough(operation, args, this.#table)) return;
      const translated = mapOperands(operation, args, (argument, operand) =>
        this.#translate(name, argument, operand),
      );
      callOperation(inner, operation, translated);
      return;
    }
    // Look up the operands and copy lists now: the caller may free or change them before the call is carried out.
    assertSupported(inner, operation, args);
    operation.resolve(args, this.#checkingBinder(name));
    const later = copyOf(operation, args);
    const bound: BoundOperand[] = [];
    mapOperands(operation, later, (argument, operand) => {
      bound.push(this.#bind(name, argument, operand, 0, 1));
      return operand;
    });
    this.#slot.tell((current) => {
      let next = 0;
      callOperation(
        current,
        operation,
        mapOperands(operation, later, () => bound[next++]!()),
      );
    });
  }

  // Recordings

  override record<Values extends object>(
    body: (vary: Vary<Values>) => void,
    values?: Values,
  ): Recording<Values> {
    const collect = (make: () => void, add: Collected): void => {
      this.#slot.isRecording = true;
      this.#collected = add;
      try {
        make();
      } finally {
        this.#slot.isRecording = false;
      }
    };
    const check = (call: RecordedCall): void => this.#check(call);
    const player = new SwitchedPlayer({
      ...{ backend: this, slot: this.#slot, table: this.#table, collect, check },
    });
    return record(player, body, values);
  }

  #collect(call: RecordedCall): void {
    if (this.#slot.state !== "open") throw this.#slot.unusable(nameOf(call));
    this.#check(call);
    this.#collected(call, undefined);
  }

  #checkCopy(destination: Operand, source: Operand, bytes: number): void {
    const checks = new Checks("copyDtoD");
    checks.count("bytes", bytes);
    const to = regionIn(this.#table, "copyDtoD", "destination", destination, bytes, 1);
    const from = regionIn(this.#table, "copyDtoD", "source", source, bytes, 1);
    checks.disjoint({ argument: "destination", region: to }, { argument: "source", region: from });
  }

  /** Checks a call that is not made now. What it finds in the allocations does not matter yet. */
  #check(call: RecordedCall): void {
    if (call.operation === "copyDtoD") this.#checkCopy(call.destination, call.source, call.bytes);
    else if (call.operation === "fill") {
      const { destination, value, count, dtype } = call;
      checkFill(value, count, dtype);
      const size = dtypeBytes[dtype];
      locate(this.#table, "fill", "destination", destination, count * size, size);
    } else {
      assertSupported(this, call.operation, call.args);
      call.operation.resolve(call.args, this.#checkingBinder(call.operation.name));
    }
  }

  #checkingBinder(operation: string): Binder<Entry> {
    return {
      region: (argument, operand, elements, dtype, before = 0) => {
        const size = dtypeBytes[dtype];
        return regionIn(this.#table, operation, argument, operand, elements * size, size, before * size);
      },
    };
  }

  // Plumbing

  #translate(operation: string, argument: string, operand: Operand): Operand {
    return withHandle(operand, (handle) =>
      innerHandle(this.#table.get(handle, operation, argument), operation, argument),
    );
  }

  /** Checks an operand now. The result returns its translation when the call is carried out. */
  #bind(
    operation: string,
    argument: string,
    operand: Operand,
    byteLength: number,
    alignment: number,
    before = 0,
  ): BoundOperand {
    const { memory: entry, byteOffset } = regionIn(
      this.#table,
      operation,
      argument,
      operand,
      byteLength,
      alignment,
      before,
    );
    assertHeld(entry, operation, argument);
    return () => ({ handle: innerHandle(entry, operation, argument), byteOffset });
  }
}
