import {
  assertReadsSynchronously,
  checkAlloc,
  checkFill,
  fillPattern,
  hostBytes,
  locate,
  takesScalar,
} from "./arguments.js";
import type { AllocOptions, BackendState, ComputeBackend, HostBytes } from "./backend.js";
import type { Capabilities, MemoryStatistics } from "./capabilities.js";
import type { BackendDriver, DriverDescription, DriverRecording, Kernel, PoolStatistics } from "./driver.js";
import { type DType, dtypeBytes, dtypes } from "./dtype.js";
import { type Entry, innerHandle } from "./entries.js";
import { BackendError, type ErrorCode, toBackendError } from "./errors.js";
import { type DeviceHandle, type DeviceSlice, HandleTable, type Operand } from "./handles.js";
import { LateFaults } from "./late-faults.js";
import { Listeners } from "./listeners.js";
import { Checks } from "./ops/checks.js";
import { Declared, defineMethods } from "./ops/define-methods.js";
import type { OperationName, Operations } from "./ops/index.js";
import { operationNames } from "./ops/index.js";
import { operationIn } from "./ops/lookup.js";
import { Fill, type Operation } from "./ops/operation.js";
import type { Binder } from "./ops/reader.js";
import { copyCall, fillCall, nameOf, operationCall, type RecordedCall } from "./recording/calls.js";
import { type Collected, type Player, RUN, record } from "./recording/parts.js";
import type { Recording, Vary } from "./recording/recording.js";
import { whileRecording } from "./recording/while-recording.js";
import type { Region } from "./region.js";
import {
  assertSupported,
  callTest,
  checkOwnKernels,
  type Question,
  supportsQuestion,
  typesTaken,
} from "./support.js";
import type { MovesDirectly, RunsThrough } from "./through.js";

/** A backend made by `createBackend`, for the package that wrote the driver. */
export interface DriverBackend<Memory> extends ComputeBackend {
  /**
   * Issues a handle for memory that did not come from `alloc` but that the driver can use, such as a buffer
   * of another library. It counts as live; `free` passes it to `driver.free`. Throws `INVALID_ARGUMENT` if
   * `bytes` is not a whole number, and then takes nothing over.
   */
  adopt(memory: Memory, bytes: number): DeviceHandle;
  /**
   * Returns the driver's memory for a live handle; undefined for an allocation of 0 bytes. Throws
   * `INVALID_HANDLE` for any other handle.
   */
  memoryOf(handle: DeviceHandle, operation: string, argument: string): Memory | undefined;
  /** Throws `NOT_INITIALIZED`, `DEVICE_LOST` or `DISPOSED`, in the name of `operation`, unless the backend is open. */
  assertOpen(operation: string): void;
}

/** What a backend knows of the operations of core. */
export interface KnownOperations {
  /** Those of `@backplane/core/operations/...` that the driver has kernels for. */
  readonly operations: Partial<Operations>;
  /** For the error of a call of any other operation of core: what the caller can do, such as `import it from ...`. */
  readonly advice: (operation: OperationName) => string;
  /** Checks what a driver's `open` returns. It knows the functions of all operations. Default: that is not checked. */
  readonly checkDescription?: (description: DriverDescription) => void;
}

/**
 * As `createBackend`, for a driver that has kernels for some of core's operations: a bundle then has only these.
 * `supports` is false for all others, and calls of them throw `UNSUPPORTED` with the advice.
 */
export function createBackendOf<Memory>(
  driver: BackendDriver<Memory>,
  known: KnownOperations,
): DriverBackend<Memory> {
  // Each has methods of its own, so that those that it has go to their operation without being looked up.
  class BackendOfSome extends CreatedBackend<Memory> {}
  defineMethods(BackendOfSome.prototype, known.operations);
  return new BackendOfSome(driver, known);
}

interface Allocation<Memory> {
  readonly bytes: number;
  /** Undefined for an allocation of 0 bytes, which the driver never sees. */
  readonly memory: Memory | undefined;
  /** Moves that use its bytes as memory of the host. */
  moves: number;
  /** The handle has ended during a move. */
  isFreed: boolean;
}

/** A kernel of the driver, and the binder that turns its operands into regions. */
interface Known<Memory> {
  readonly kernel: Kernel<never>;
  /** Whether the kernel takes a call. */
  readonly takes: (args: object) => boolean;
  readonly binder: Binder<Memory>;
  /** The binder for handles of another table: see `runThrough`. */
  through: { readonly handles: HandleTable<Entry>; readonly binder: Binder<Memory> } | undefined;
}

/** A checked call: what is left is to have the driver do it. Undefined: there is nothing to do. */
type Prepared = { readonly operation: string; readonly enqueue: () => void } | undefined;

/** The operation that errors of moves name. */
const MOVE = "copyBetween";

const noPool: PoolStatistics = { pooledBytes: 0, poolHits: 0, poolMisses: 0 };

/**
 * `defineMethods` gives a class derived from this one the methods of operations. The class is long because every call depends on
 * the same few fields: whether the backend is open, is recording, and on which device.
 */
export class CreatedBackend<Memory>
  extends Declared
  implements DriverBackend<Memory>, RunsThrough, MovesDirectly
{
  readonly name: string;
  readonly reusesMemory: boolean;
  readonly #driver: BackendDriver<Memory>;
  readonly #operations: Partial<Operations>;
  readonly #advice: KnownOperations["advice"];
  readonly #checkDescription: KnownOperations["checkDescription"];
  readonly #table = new HandleTable<Allocation<Memory>>((operation, argument) =>
    takesScalar(this.#operations[operation as OperationName], argument),
  );
  readonly #known = new Map<Operation, Known<Memory>>();
  readonly #lostListeners = new Listeners<BackendError>("onLost");
  readonly #faults = new LateFaults("onError");
  /** `recording`: open, and calls go to `#collected`. */
  #state: BackendState | "recording" = "new";
  #collected: Collected = () => {};
  #opening: Promise<void> | undefined;
  #closing: Promise<void> | undefined;
  /** Whether the driver has something to close. */
  #isDriverOpen = false;
  /** Identifies the open device. Events from earlier devices are ignored. */
  #session: symbol | undefined;
  #capabilities: Capabilities | undefined;
  #loss: BackendError | undefined;
  #liveBytes = 0;
  #peakBytes = 0;

  constructor(driver: BackendDriver<Memory>, { operations, advice, checkDescription }: KnownOperations) {
    super();
    this.name = driver.name;
    this.reusesMemory = driver.reusesMemory === true;
    this.#driver = driver;
    this.#operations = operations;
    this.#advice = advice;
    this.#checkDescription = checkDescription;
    checkOwnKernels(driver, operations);
    this.#learnKernels();
  }

  // Lifecycle

  get state(): BackendState {
    return this.#state === "recording" ? "open" : this.#state;
  }

  get capabilities(): Capabilities {
    if (this.#capabilities === undefined) throw this.#unusable("capabilities");
    return this.#capabilities;
  }

  init(): Promise<void> {
    if (this.#state === "disposed") return Promise.reject(this.#unusable("init"));
    if (this.#opening === undefined) {
      const opening: Promise<void> = this.#open().catch((error: unknown) => {
        // A loss may already have started another attempt.
        if (this.#opening === opening) this.#opening = undefined;
        throw toBackendError(error, "UNSUPPORTED", "init");
      });
      this.#opening = opening;
    }
    return this.#opening;
  }

  async #open(): Promise<void> {
    if (this.#isDriverOpen) await this.#closeLost();
    this.#assertNotDisposed("init");
    // Events of an attempt count only once it has succeeded: a failed one may report late about what it gave up.
    const session = Symbol();
    let early: string | undefined;
    const description = await this.#driver.open({
      lost: (reason) => {
        early ??= reason;
        if (this.#session === session) this.#onLoss(reason);
      },
      error: (error) => {
        if (this.#session === session) this.#faults.report(error);
      },
    });
    this.#isDriverOpen = true;
    this.#assertNotDisposed("init");
    this.#checkDescription?.(description);
    this.#session = session;
    this.#learnKernels();
    this.#capabilities = this.#describe(description);
    this.#loss = undefined;
    this.#state = "open";
    if (early === undefined) return;
    this.#onLoss(early);
    throw this.#unusable("init");
  }

  /** Lets the driver release what remains of the lost device. */
  async #closeLost(): Promise<void> {
    this.#isDriverOpen = false;
    // A listener may ask for a new device while the driver still reports the loss of the old one.
    await undefined;
    try {
      await this.#driver.close();
    } catch {
      // A caller who opens another device does not care whether the lost one closed well.
    }
  }

  #describe(description: DriverDescription): Capabilities {
    const { device, limits, numerics, accuracy, synchronousReads = false } = description;
    const taken = new Set(this.#ofCore.flatMap(({ operation, kernel }) => typesTaken(operation, kernel)));
    return {
      ...{ device, dtypes: dtypes.filter((dtype) => taken.has(dtype)), limits, numerics },
      synchronousReads: synchronousReads && this.#driver.readSync !== undefined,
      ...(accuracy === undefined ? {} : { accuracy }),
    };
  }

  flush(): void {
    this.assertOpen("flush");
    this.#call("flush", () => this.#driver.flush?.());
  }

  async synchronize(): Promise<void> {
    this.assertOpen("synchronize");
    await this.#faults.wait("synchronize", () => this.#driver.synchronize());
  }

  dispose(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    const opened = this.#opening;
    this.#state = "disposed";
    this.#session = undefined;
    this.#table.clear();
    this.#liveBytes = 0;
    this.#faults.end(this.#unusable("dispose"));
    // Wait for an init() under way, so that what it opens is closed again.
    await opened?.catch(() => {});
    if (!this.#isDriverOpen) return;
    try {
      await this.#driver.close();
    } catch (error) {
      throw toBackendError(error, "DEVICE_ERROR", "dispose");
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  onLost(listener: (error: BackendError) => void): () => void {
    return this.#lostListeners.add(listener, this.#state === "lost" ? this.#loss : undefined);
  }

  onError(listener: (error: BackendError) => void): () => void {
    return this.#faults.add(listener);
  }

  supports(given: OperationName | Operation, question: Question = {}): boolean {
    new Checks("supports").object("question", question);
    if (typeof given === "string" && !Object.hasOwn(this.#operations, given)) return false;
    const operation = operationIn(this.#operations, "supports", given);
    const kernel = this.#known.get(operation)?.kernel;
    return kernel !== undefined && supportsQuestion(operation, kernel.supports, question);
  }

  memory(): MemoryStatistics {
    const isOpen = this.state === "open";
    return {
      liveAllocations: this.#table.size,
      liveBytes: this.#liveBytes,
      peakBytes: this.#peakBytes,
      reservedBytes: isOpen ? this.#driver.reservedBytes() : 0,
      ...((isOpen ? this.#driver.pool?.() : undefined) ?? noPool),
    };
  }

  trim(): void {
    this.assertOpen("trim");
    this.#call("trim", () => this.#driver.trim?.());
  }

  native(handle?: DeviceHandle): unknown {
    this.assertOpen("native");
    if (handle === undefined) return this.#driver.native();
    const { memory } = this.#table.get(handle, "native", "handle");
    return memory === undefined ? undefined : this.#driver.native(memory);
  }

  // Memory

  alloc(bytes: number, options: AllocOptions = {}): DeviceHandle {
    this.assertOpen("alloc");
    const zero = checkAlloc(bytes, options, this.#capabilities!.limits, this.#live);
    const memory = bytes === 0 ? undefined : this.#call("alloc", () => this.#driver.alloc(bytes, zero));
    return this.#issue(bytes, memory);
  }

  /** What there is, in words. */
  readonly #live = (): string => `${this.#table.size} live allocations hold ${this.#liveBytes} bytes`;

  adopt(memory: Memory, bytes: number): DeviceHandle {
    this.assertOpen("adopt");
    return this.#issue(new Checks("adopt").count("bytes", bytes), memory);
  }

  memoryOf(handle: DeviceHandle, operation: string, argument: string): Memory | undefined {
    this.assertOpen(operation);
    return this.#table.get(handle, operation, argument).memory;
  }

  #issue(bytes: number, memory: Memory | undefined): DeviceHandle {
    this.#liveBytes += bytes;
    this.#peakBytes = Math.max(this.#peakBytes, this.#liveBytes);
    return this.#table.issue({ bytes, memory, moves: 0, isFreed: false });
  }

  free(handle: DeviceHandle): void {
    this.assertOpen("free");
    const allocation = this.#table.remove(handle, "free", "handle");
    this.#liveBytes -= allocation.bytes;
    if (allocation.moves > 0) allocation.isFreed = true;
    else this.#freeMemory(allocation);
  }

  #freeMemory({ memory }: Allocation<Memory>): void {
    if (memory !== undefined) this.#call("free", () => this.#driver.free(memory));
  }

  async withHostBytes(
    { handle, byteOffset }: DeviceSlice,
    byteLength: number,
    isWritten: boolean,
    use: (bytes: Uint8Array<ArrayBufferLike>) => Promise<void>,
  ): Promise<boolean> {
    if (this.#driver.hostBytes === undefined || byteLength === 0) return false;
    this.assertOpen(MOVE);
    const allocation = this.#table.get(handle, MOVE, "handle");
    const region = { memory: allocation.memory as Memory, byteOffset, byteLength };
    const ask = () => this.#call(MOVE, () => this.#driver.hostBytes!(region, isWritten));
    if (ask() === undefined) return false;
    await this.#moving(allocation, async () => {
      await this.synchronize();
      for (let bytes = ask()!; ; bytes = ask()!) {
        try {
          return await use(bytes);
        } catch (error) {
          // Memory that was elsewhere at the end is written again where it is.
          if (bytes.byteLength === byteLength || this.state !== "open") throw error;
        }
      }
    });
    return true;
  }

  async copyFrom({ handle, byteOffset }: DeviceSlice, source: Uint8Array<ArrayBufferLike>): Promise<void> {
    this.assertOpen(MOVE);
    const allocation = this.#table.get(handle, MOVE, "handle");
    const memory = allocation.memory as Memory;
    if (this.#driver.upload === undefined)
      this.#call(MOVE, () => this.#driver.write(memory, byteOffset, source));
    else
      await this.#moving(allocation, () =>
        this.#faults.wait(MOVE, () => this.#driver.upload!(memory, byteOffset, source)),
      );
  }

  /** Keeps the memory of an allocation until a move ends, whoever frees it. */
  async #moving(allocation: Allocation<Memory>, move: () => Promise<void>): Promise<void> {
    const session = this.#session;
    allocation.moves++;
    try {
      await move();
    } finally {
      allocation.moves--;
      const isOver = allocation.isFreed && allocation.moves === 0;
      if (isOver && this.#state === "open" && session === this.#session) this.#freeMemory(allocation);
    }
  }

  copyHtoD(destination: Operand, source: HostBytes): void {
    this.assertOpen("copyHtoD");
    const bytes = hostBytes("copyHtoD", "source", source);
    const region = this.#region("copyHtoD", "destination", destination, bytes.byteLength, 1);
    if (bytes.byteLength === 0) return;
    this.#call("copyHtoD", () => this.#driver.write(region.memory, region.byteOffset, bytes));
  }

  async copyDtoH(destination: HostBytes, source: Operand): Promise<void> {
    this.assertOpen("copyDtoH");
    const bytes = hostBytes("copyDtoH", "destination", destination);
    const { byteLength } = bytes;
    const region = this.#region("copyDtoH", "source", source, byteLength, 1);
    await this.#faults.wait("copyDtoH", async () => {
      if (byteLength === 0) return;
      try {
        await this.#driver.read(bytes, region.memory, region.byteOffset);
      } catch (error) {
        // A view of a buffer that was transferred away while the read was pending has no bytes left.
        if (bytes.byteLength === byteLength) throw error;
      }
    });
    if (bytes.byteLength !== byteLength)
      new Checks("copyDtoH").fail(
        "destination",
        "was detached or shortened meanwhile; allowed: live buffers",
      );
  }

  copyDtoHSync(destination: HostBytes, source: Operand): void {
    this.assertOpen("copyDtoHSync");
    assertReadsSynchronously(this);
    const bytes = hostBytes("copyDtoHSync", "destination", destination);
    const region = this.#region("copyDtoHSync", "source", source, bytes.byteLength, 1);
    let failure: unknown;
    try {
      if (bytes.byteLength > 0) this.#driver.readSync!(bytes, region.memory, region.byteOffset);
    } catch (error) {
      failure = toBackendError(error, "DEVICE_ERROR", "copyDtoHSync");
    }
    // As after an awaited promise: an earlier fault explains the failure, or spoils the success.
    this.#faults.raise();
    if (failure !== undefined) throw failure;
  }

  copyDtoD(destination: Operand, source: Operand, bytes: number): void {
    if (this.#state === "recording") {
      const prepared = this.#prepareCopy(destination, source, bytes);
      this.#collected(copyCall(destination, source, bytes), prepared);
      return;
    }
    this.assertOpen("copyDtoD");
    this.#enqueue(this.#prepareCopy(destination, source, bytes));
  }

  #prepareCopy(destination: Operand, source: Operand, bytes: number): Prepared {
    const operation = "copyDtoD";
    const checks = new Checks(operation);
    checks.count("bytes", bytes);
    const to = this.#region(operation, "destination", destination, bytes, 1);
    const from = this.#region(operation, "source", source, bytes, 1);
    checks.disjoint({ argument: "destination", region: to }, { argument: "source", region: from });
    return bytes === 0 ? undefined : { operation, enqueue: () => this.#driver.copy(to, from) };
  }

  fill(destination: Operand, value: number, count: number, dtype: DType = "f32"): void {
    if (this.#state === "recording") {
      const prepared = this.#prepareFill(destination, value, count, dtype);
      this.#collected(fillCall(destination, value, count, dtype), prepared);
      return;
    }
    this.assertOpen("fill");
    this.#enqueue(this.#prepareFill(destination, value, count, dtype));
  }

  #prepareFill(destination: Operand, value: number, count: number, dtype: DType): Prepared {
    const operation = "fill";
    checkFill(value, count, dtype);
    const elementBytes = dtypeBytes[dtype];
    const pattern = fillPattern(value, dtype);
    const region = this.#region(operation, "destination", destination, count * elementBytes, elementBytes);
    return count === 0 ? undefined : { operation, enqueue: () => this.#driver.fill(region, pattern) };
  }

  #enqueue(prepared: Prepared): void {
    if (prepared !== undefined) this.#call(prepared.operation, prepared.enqueue);
  }

  // Operations

  override run(given: OperationName | Operation, args: object): void {
    const operation = this.#operationOf(given);
    if (this.#isRecorded(operation, args)) return;
    const known = this.#known.get(operation);
    this.#carryOut(operation, args, known, known?.binder);
  }

  runThrough(operation: Operation, args: object, handles: HandleTable<Entry>): boolean {
    const known = this.#known.get(operation);
    if (this.#state !== "open" || known === undefined) return false;
    if (known.through?.handles !== handles)
      known.through = { handles, binder: this.#binder(operation.name, handles) };
    this.#carryOut(operation, args, known, known.through.binder);
    return true;
  }

  #carryOut(
    operation: Operation,
    args: object,
    known: Known<Memory> | undefined,
    given: Binder<Memory> | undefined,
  ): void {
    const { name } = operation;
    // Asked here first, since `assertSupported` looks the operation up again.
    if (known === undefined || !known.takes(args)) this.#assertSupported(operation, args);
    // Without a kernel the element type is one that no backend has, which the argument checks refuse.
    const problem = operation.resolve(args, given ?? this.#binder(name));
    if (problem === undefined) return;
    if (problem instanceof Fill) {
      const { region, value, dtype } = problem as { region: Region<Memory>; value: number; dtype: DType };
      this.#call(name, () => this.#driver.fill(region, fillPattern(value, dtype)));
    } else this.#call(name, () => known!.kernel.run(problem as never));
  }

  #operationOf(given: OperationName | Operation): Operation {
    if (typeof given === "string" && !Object.hasOwn(this.#operations, given)) this.#assertPresent(given);
    return operationIn(this.#operations, "run", given);
  }

  #assertSupported(operation: Operation, args: object): void {
    if (!this.#known.has(operation)) this.#assertPresent(operation.name);
    assertSupported(this, operation, args);
  }

  /** Throws `UNSUPPORTED` for the name of an operation of core that this backend knows nothing of. */
  #assertPresent(name: string): void {
    const isAbsent = this.#operations[name as OperationName] === undefined;
    if (!isAbsent || !operationNames.includes(name as OperationName)) return;
    const { state } = this;
    if (state !== "open") throw this.#unusable(name);
    const advice = this.#advice(name as OperationName);
    throw this.#error("UNSUPPORTED", name, `${this.name} was made without it; ${advice}`);
  }

  /** Whether the call is recorded and not to be carried out. Throws if the backend is not open. */
  #isRecorded(operation: Operation, args: object): boolean {
    if (this.#state === "open") return false;
    if (this.#state !== "recording") throw this.#unusable(operation.name);
    const prepared = this.#prepareOperation(operation, args);
    this.#collected(operationCall(operation, args), prepared);
    return true;
  }

  /** As `run`, up to the moment when the driver is called. */
  #prepareOperation(operation: Operation, args: object): Prepared {
    const { name } = operation;
    const known = this.#known.get(operation);
    if (known === undefined || !known.takes(args)) this.#assertSupported(operation, args);
    const { kernel, binder } = known ?? { binder: this.#binder(name) };
    const problem = operation.resolve(args, binder);
    if (problem === undefined) return undefined;
    if (!(problem instanceof Fill)) return { operation: name, enqueue: () => kernel!.run(problem as never) };
    const { region, value, dtype } = problem as { region: Region<Memory>; value: number; dtype: DType };
    const pattern = fillPattern(value, dtype);
    return { operation: name, enqueue: () => this.#driver.fill(region, pattern) };
  }

  // Recordings

  override record<Values extends object>(
    body: (vary: Vary<Values>) => void,
    values?: Values,
  ): Recording<Values> {
    return record(this.#player(), body, values);
  }

  #prepare(call: RecordedCall): Prepared {
    if (call.operation === "copyDtoD") return this.#prepareCopy(call.destination, call.source, call.bytes);
    if (call.operation === "fill")
      return this.#prepareFill(call.destination, call.value, call.count, call.dtype);
    return this.#prepareOperation(call.operation, call.args);
  }

  #collect(body: () => void, add: Collected): void {
    this.#collected = add;
    this.#state = "recording";
    try {
      body();
    } finally {
      this.#collected = () => {};
      // The body may have disposed of the backend.
      if (this.#state === "recording") this.#state = "open";
    }
  }

  /** The driver's own recording, or the checked calls, which are handed to the driver again at each run. */
  #player(): Player {
    const steps: (readonly Prepared[])[] = [];
    let session = this.#session;
    let recording: DriverRecording | undefined;
    let isBegun = false;
    const begin = (): DriverRecording | undefined => {
      // Nothing of a recording outlives its device but parts without operands.
      if (!isBegun || session !== this.#session) recording = this.#driver.record?.();
      isBegun = true;
      session = this.#session;
      return recording;
    };
    const enqueueAll = (calls: readonly Prepared[]): void => {
      for (const call of calls) this.#enqueue(call);
    };
    const table = this.#table;
    return {
      get ended() {
        return table.ended;
      },
      assertOpen: (operation) => this.assertOpen(operation),
      collect: (body, add) => this.#collect(body, add),
      plan: (place, calls, findings) => {
        const prepared = (findings as Prepared[] | undefined) ?? calls.map((call) => this.#prepare(call));
        const driven = begin();
        if (driven === undefined) steps[place] = prepared;
        else
          this.#call(calls[0] === undefined ? RUN : nameOf(calls[0]), () =>
            driven.plan(place, () => enqueueAll(prepared)),
          );
      },
      assertLive: (handle, operation, argument) => void table.get(handle, operation, argument),
      play: () => {
        if (session !== this.#session) return;
        if (recording === undefined) for (const step of steps) enqueueAll(step);
        else this.#call(RUN, () => recording!.run());
      },
      dispose: () => {
        steps.length = 0;
        if (session === this.#session && this.state === "open") recording?.dispose();
        recording = undefined;
      },
    };
  }

  /** Looks up the driver's kernels at each opening: some drivers know them only once they know their device. */
  #learnKernels(): void {
    this.#known.clear();
    const learn = (operation: Operation, kernel: Kernel<never>) =>
      this.#known.set(operation, {
        ...{ kernel, takes: callTest(operation, kernel), binder: this.#binder(operation.name) },
        through: undefined,
      });
    for (const { operation, kernel } of this.#ofCore) learn(operation, kernel);
    for (const kernel of this.#driver.ownKernels ?? []) learn(kernel.operation, kernel);
  }

  /** The driver's kernels for operations of core. */
  get #ofCore(): readonly { readonly operation: Operation; readonly kernel: Kernel<never> }[] {
    return Object.values(this.#operations).flatMap((operation) => {
      const kernel = this.#driver.kernels[operation.name as OperationName];
      return kernel === undefined ? [] : [{ operation, kernel }];
    });
  }

  /** `handles`: the table of the handles, if it is not that of this backend. */
  #binder(operation: string, handles?: HandleTable<Entry>): Binder<Memory> {
    return {
      region: (argument, operand, elements, dtype, before = 0) => {
        const size = dtypeBytes[dtype];
        const byteLength = elements * size;
        const skipped = before * size;
        if (handles === undefined)
          return this.#region(operation, argument, operand, byteLength, size, skipped);
        const { entry, byteOffset } = locate(
          handles,
          operation,
          argument,
          operand,
          byteLength,
          size,
          skipped,
        );
        const { memory } = this.#table.get(innerHandle(entry, operation, argument), operation, argument);
        return { memory: memory as Memory, byteOffset, byteLength };
      },
    };
  }

  #region(
    operation: string,
    argument: string,
    operand: Operand,
    byteLength: number,
    alignment: number,
    before = 0,
  ): Region<Memory> {
    const { entry, byteOffset } = locate(
      this.#table,
      operation,
      argument,
      operand,
      byteLength,
      alignment,
      before,
    );
    // An allocation of 0 bytes has no memory; nothing looks at the memory of an empty region.
    return { memory: entry.memory as Memory, byteOffset, byteLength };
  }

  // Faults

  #call<Result>(operation: string, body: () => Result): Result {
    try {
      return body();
    } catch (error) {
      throw toBackendError(error, "DEVICE_ERROR", operation);
    }
  }

  #onLoss(reason: string): void {
    this.#state = "lost";
    this.#session = undefined;
    this.#opening = undefined;
    this.#loss = new BackendError("DEVICE_LOST", `${this.name}: the device was lost: ${reason}`);
    // The allocations are gone with the device, so a fault of earlier work no longer matters.
    this.#table.lose();
    this.#liveBytes = 0;
    this.#faults.end(this.#loss);
    this.#lostListeners.emit(this.#loss);
  }

  assertOpen(operation: string): void {
    if (this.#state !== "open") throw this.#unusable(operation);
  }

  #assertNotDisposed(operation: string): void {
    if (this.#state === "disposed") throw this.#unusable(operation);
  }

  #unusable(operation: string): BackendError {
    if (this.#state === "recording") return whileRecording(operation);
    if (this.#state === "disposed") return this.#error("DISPOSED", operation, "the backend was disposed of");
    if (this.#state === "lost")
      return new BackendError("DEVICE_LOST", `${operation}: ${this.#loss?.message}`, {
        operation,
        cause: this.#loss,
      });
    return this.#error("NOT_INITIALIZED", operation, "call init() and await it first");
  }

  #error(code: ErrorCode, operation: string, message: string): BackendError {
    return new BackendError(code, `${operation}: ${message}`, { operation });
  }
}

/**
 * Whether calls to a backend go straight to this code: nobody has put a function of his own in the way of `run`, or of the
 * method of that name, as those do who watch or test a backend.
 */
export function runsPlainly(
  backend: ComputeBackend,
  method: string,
): backend is ComputeBackend & RunsThrough {
  return backend.run === CreatedBackend.prototype.run && !Object.hasOwn(backend, method);
}

/** Whether memory of a backend may be used again without its `free` and `alloc`, which nobody watches. */
export function reusesPlainly(backend: ComputeBackend): boolean {
  const { alloc, free } = CreatedBackend.prototype;
  return (
    backend.alloc === alloc && backend.free === free && (backend as CreatedBackend<unknown>).reusesMemory
  );
}

/** Whether moves may use the memory of a backend without its `copyHtoD` and `copyDtoH`, which nobody watches. */
export function movesDirectly(backend: ComputeBackend): backend is ComputeBackend & MovesDirectly {
  return (
    backend instanceof CreatedBackend &&
    runsPlainly(backend, "copyHtoD") &&
    !Object.hasOwn(backend, "copyDtoH")
  );
}
