import {
  assertSupported,
  checkAlloc,
  checkFill,
  fillPattern,
  hostBytes,
  locate,
  withHandle,
} from "./arguments.js";
import type { AllocOptions, ComputeBackend, HostBytes } from "./backend.js";
import type { Capabilities, MemoryStatistics } from "./capabilities.js";
import { type DType, dtypeBytes } from "./dtype.js";
import {
  type BoundOperand,
  copyOf,
  type Entry,
  innerHandle,
  isOperand,
  mapOperands,
  move,
} from "./entries.js";
import { BackendError, type ErrorCode, toBackendError } from "./errors.js";
import { type DeviceHandle, HandleTable, type Operand } from "./handles.js";
import { Listeners } from "./listeners.js";
import { type OperationArguments, type OperationName, operations } from "./ops/index.js";
import { OperationMethods } from "./ops/methods.js";
import { type Binder, Checks, type Operation } from "./ops/operation.js";
import type { BackendRegistry } from "./registry.js";

/** What a swap did. */
export interface SwapReport {
  readonly from: string;
  readonly to: string;
  /** Live allocations moved, and their bytes. */
  readonly allocations: number;
  readonly bytes: number;
  readonly milliseconds: number;
}

/** A call made while the allocations were being moved, to be carried out afterwards. */
interface Deferred {
  run(inner: ComputeBackend): void;
  /** For calls with a promise: tells it that the call will never be carried out. */
  cancel(error: BackendError): void;
}

/**
 * A backend that can be exchanged for another while a program runs:
 *
 *   const backend = new SwitchableBackend(registry, ["webgpu", "cpu"]);
 *   await backend.init();
 *   ...
 *   await backend.use("cpu");
 *
 * `use` lets the current backend finish, moves every live allocation and closes the old one. All
 * handles stay valid. A swap that fails rejects and leaves everything as it was. Other code may go
 * on calling during a swap: what it asks for while data are being moved is checked at once and
 * carried out right after, in order.
 */
export class SwitchableBackend extends OperationMethods implements ComputeBackend {
  readonly name = "switchable";
  readonly #registry: BackendRegistry;
  readonly #chain: string | readonly string[];
  readonly #table = new HandleTable<Entry>();
  readonly #lostListeners = new Listeners<BackendError>();
  readonly #errorListeners = new Listeners<BackendError>();
  #inner: ComputeBackend | undefined;
  #current = "";
  #stopForwarding: () => void = () => {};
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** Ends when all swaps asked for so far have. Never rejects. */
  #swaps: Promise<unknown> = Promise.resolve();
  /** Calls that wait for a move of the allocations to end; undefined while none is under way. */
  #deferred: Deferred[] | undefined;
  /** Answers that the backends underneath still owe; the one in use is not closed before. */
  readonly #pending = new Set<Promise<void>>();
  /** The first fault of a deferred call that no promise has reported yet. */
  #fault: BackendError | undefined;
  #liveBytes = 0;
  #peakBytes = 0;

  /** `chain`: what `init` tries to open, in this order; by default all that is registered. */
  constructor(registry: BackendRegistry, chain: string | readonly string[] = registry.names) {
    super();
    this.#registry = registry;
    this.#chain = chain;
  }

  /** The name of the backend in use; empty before `init` has resolved. */
  get current(): string {
    return this.#current;
  }

  // Lifecycle

  get capabilities(): Capabilities {
    if (this.#inner === undefined) throw this.#unusable("capabilities");
    return this.#inner.capabilities;
  }

  init(): Promise<void> {
    if (this.#closing !== undefined) return Promise.reject(this.#unusable("init"));
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #open(): Promise<void> {
    const { name, backend } = await this.#registry.open(this.#chain);
    this.#adopt(name, backend);
    // dispose() waits for this and closes what was opened.
    if (this.#closing !== undefined) throw this.#unusable("init");
  }

  #adopt(name: string, backend: ComputeBackend): void {
    this.#stopForwarding();
    this.#inner = backend;
    this.#current = name;
    const stops = [
      backend.onLost((error) => this.#lostListeners.emit(error)),
      backend.onError((error) => this.#errorListeners.emit(error)),
    ];
    this.#stopForwarding = () => {
      for (const stop of stops) stop();
    };
  }

  /**
   * Goes on with another registered backend. Swaps asked for at the same time run one after another.
   * Rejects where the other backend cannot be opened or cannot hold what is live, or where the
   * current one reports a fault; then nothing has changed.
   */
  use(name: string): Promise<SwapReport> {
    const swap = this.#swaps.then(() => this.#swap(name));
    this.#swaps = swap.catch(() => {});
    return swap;
  }

  async #swap(name: string): Promise<SwapReport> {
    const old = this.#assertOpen("use");
    const from = this.#current;
    const start = performance.now();
    if (name === from) return { from, to: name, allocations: 0, bytes: 0, milliseconds: 0 };
    const next = this.#registry.create(name);
    const moved = new Map<Entry, DeviceHandle>();
    try {
      await next.init();
      this.#assertOpen("use");
      this.#deferred = [];
      // What is live now is moved; whatever is done to it from here on waits until it has been.
      const live = [...this.#table.entries()];
      await old.synchronize();
      await Promise.allSettled(this.#pending);
      for (const [, entry] of live) {
        this.#assertOpen("use");
        if (entry.inner !== undefined) moved.set(entry, await move(entry.inner, entry.bytes, old, next));
      }
      await next.synchronize();
      this.#assertOpen("use");
    } catch (error) {
      this.#resume(old);
      // The reason stands, whatever closing says.
      await next.dispose().catch(() => {});
      throw toBackendError(error, "DEVICE_ERROR", "use");
    }
    let bytes = 0;
    for (const [entry, handle] of moved) {
      entry.inner = handle;
      bytes += entry.bytes;
    }
    this.#adopt(name, next);
    this.#resume(next);
    await old.dispose().catch((error: unknown) => {
      this.#errorListeners.emit(toBackendError(error, "DEVICE_ERROR", "use"));
    });
    return { from, to: name, allocations: moved.size, bytes, milliseconds: performance.now() - start };
  }

  /** Ends the time in which calls are deferred and carries them out. */
  #resume(inner: ComputeBackend): void {
    const deferred = this.#deferred ?? [];
    const faults: BackendError[] = [];
    this.#deferred = undefined;
    for (const call of deferred) {
      if (this.#closing !== undefined) {
        call.cancel(this.#unusable("dispose"));
        continue;
      }
      try {
        call.run(inner);
      } catch (error) {
        faults.push(toBackendError(error, "DEVICE_ERROR", "use"));
      }
    }
    this.#fault ??= faults[0];
    // Only now, since listeners may make calls of their own, which come after all these.
    for (const fault of faults) this.#errorListeners.emit(fault);
  }

  async synchronize(): Promise<void> {
    await this.#ask("synchronize", (inner) => inner.synchronize());
  }

  dispose(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#table.clear();
    this.#liveBytes = 0;
    await this.#opening?.catch(() => {});
    // A swap under way notices, gives up and closes the other backend. It may be waiting for this one.
    const inner = this.#inner;
    inner?.dispose().catch(() => {});
    await this.#swaps;
    this.#stopForwarding();
    await inner?.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    const stop = this.#lostListeners.add(listener);
    // The backend in use may already be lost; it tells a new listener at once.
    this.#inner?.onLost(listener)();
    return stop;
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#errorListeners.add(listener);
  }

  supports(operation: OperationName, dtype: DType, kind?: string): boolean {
    return this.#inner?.supports(operation, dtype, kind) ?? false;
  }

  memory(): MemoryStatistics {
    const reservedBytes = this.#inner?.memory().reservedBytes ?? 0;
    return {
      liveAllocations: this.#table.size,
      liveBytes: this.#liveBytes,
      peakBytes: this.#peakBytes,
      reservedBytes,
    };
  }

  native(handle?: DeviceHandle): unknown {
    const inner = this.#assertOpen("native");
    if (handle === undefined) return inner.native();
    const entry = this.#table.get(handle, "native", "handle");
    return entry.inner === undefined ? undefined : inner.native(entry.inner);
  }

  // Memory

  alloc(bytes: number, options: AllocOptions = {}): DeviceHandle {
    const inner = this.#assertOpen("alloc");
    const live = `${this.#table.size} live allocations hold ${this.#liveBytes} bytes`;
    const zero = checkAlloc(bytes, options, inner.capabilities.limits, live);
    const entry: Entry = { bytes, inner: undefined };
    if (this.#deferred === undefined) entry.inner = inner.alloc(bytes, { zero });
    else
      this.#defer((current) => {
        entry.inner = current.alloc(bytes, { zero });
      });
    this.#liveBytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#liveBytes);
    return this.#table.issue(entry);
  }

  free(handle: DeviceHandle): void {
    this.#assertOpen("free");
    const entry = this.#table.remove(handle, "free", "handle");
    this.#liveBytes -= entry.bytes;
    this.#tell((inner) => {
      // There is nothing to free where a deferred alloc has failed.
      if (entry.inner !== undefined) inner.free(entry.inner);
    });
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    const inner = this.#assertOpen("copyHtoD");
    if (this.#deferred === undefined) {
      inner.copyHtoD(this.#translate("copyHtoD", "destination", destination), source);
      return;
    }
    const bytes = hostBytes("copyHtoD", "source", source).slice();
    const operand = this.#bind("copyHtoD", "destination", destination, bytes.byteLength, 1);
    this.#defer((current) => current.copyHtoD(operand(), bytes));
  }

  async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    this.#assertOpen("copyDtoH");
    const { byteLength } = hostBytes("copyDtoH", "destination", destination);
    const operand = this.#bind("copyDtoH", "source", source, byteLength, 1);
    await this.#ask("copyDtoH", (inner) => inner.copyDtoH(destination, operand()));
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    this.#assertOpen("copyDtoD");
    const checks = new Checks("copyDtoD");
    checks.count("bytes", bytes);
    const to = this.#bind("copyDtoD", "destination", destination, bytes, 1);
    const from = this.#bind("copyDtoD", "source", source, bytes, 1);
    checks.disjoint(
      { argument: "destination", region: to.region },
      { argument: "source", region: from.region },
    );
    this.#tell((inner) => inner.copyDtoD(to(), from(), bytes));
  }

  fill(destination: Operand, value: number, count: number, dtype: DType | "u8" = "f32"): void {
    this.#assertOpen("fill");
    checkFill(value, count, dtype);
    const { elementBytes } = fillPattern(value, dtype);
    const operand = this.#bind("fill", "destination", destination, count * elementBytes, elementBytes);
    this.#tell((inner) => inner.fill(operand(), value, count, dtype));
  }

  // Operations

  protected override run<Name extends OperationName>(name: Name, args: OperationArguments[Name]): void {
    const inner = this.#assertOpen(name);
    const operation: Operation<Name> = operations[name];
    const call = (backend: ComputeBackend, translated: OperationArguments[Name]): void => {
      (backend[name] as (args: OperationArguments[Name]) => void)(translated);
    };
    if (this.#deferred === undefined) {
      call(
        inner,
        mapOperands(operation, args, (argument, operand) => this.#translate(name, argument, operand)),
      );
      return;
    }
    // The operands are looked up and lists copied now, since the caller may free the ones and change
    // the others before the call is carried out.
    assertSupported(inner, operation, args);
    operation.resolve(args, this.#checkingBinder(name));
    const later = copyOf(args);
    const bound = operation.operands.flatMap((argument) => {
      const operand = later[argument];
      return isOperand(operand) ? [{ argument, operand: this.#bind(name, argument, operand, 0, 1) }] : [];
    });
    this.#defer((current) => {
      for (const { argument, operand } of bound) later[argument] = operand();
      call(current, later as unknown as OperationArguments[Name]);
    });
  }

  #checkingBinder(operation: string): Binder<Entry> {
    return {
      region: (argument, operand, elements, dtype) =>
        this.#bind(operation, argument, operand, elements * dtypeBytes[dtype], dtypeBytes[dtype]).region,
      fill: () => {},
    };
  }

  // Plumbing

  #translate(operation: string, argument: string, operand: Operand): Operand {
    return withHandle(operand, (handle) => innerHandle(this.#table.get(handle, operation, argument)));
  }

  /** Checks an operand now; the result gives its translation when the call is carried out. */
  #bind(
    operation: string,
    argument: string,
    operand: Operand,
    byteLength: number,
    alignment: number,
  ): BoundOperand {
    const { entry, byteOffset } = locate(this.#table, operation, argument, operand, byteLength, alignment);
    const bound = (): Operand => ({ handle: innerHandle(entry), byteOffset });
    return Object.assign(bound, { region: { memory: entry, byteOffset, byteLength } });
  }

  #defer(run: (inner: ComputeBackend) => void, cancel: (error: BackendError) => void = () => {}): void {
    this.#deferred?.push({ run, cancel });
  }

  /** Carries out a call that answers nothing, now or after the move. */
  #tell(run: (inner: ComputeBackend) => void): void {
    if (this.#deferred === undefined) run(this.#inner!);
    else this.#defer(run);
  }

  /** Carries out a call that answers with a promise, now or after the move. */
  async #ask(operation: string, call: (inner: ComputeBackend) => Promise<void>): Promise<void> {
    const inner = this.#assertOpen(operation);
    const track = async (backend: ComputeBackend): Promise<void> => {
      const answer = call(backend);
      this.#pending.add(answer);
      try {
        await answer;
      } finally {
        this.#pending.delete(answer);
      }
    };
    if (this.#deferred === undefined) await track(inner);
    else
      await new Promise<void>((resolve, reject) => {
        this.#defer((current) => {
          track(current).then(resolve, reject);
        }, reject);
      });
    const fault = this.#fault;
    this.#fault = undefined;
    if (fault !== undefined) throw fault;
  }

  #assertOpen(operation: string): ComputeBackend {
    if (this.#inner === undefined || this.#closing !== undefined) throw this.#unusable(operation);
    return this.#inner;
  }

  #unusable(operation: string): BackendError {
    const [code, message]: [ErrorCode, string] =
      this.#closing === undefined
        ? ["NOT_INITIALIZED", "call init() and await it first"]
        : ["DISPOSED", "the backend was disposed of"];
    return new BackendError(code, `${operation}: ${message}`, { operation });
  }
}
