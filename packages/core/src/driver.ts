import type { Accuracy } from "./accuracy.js";
import type { DeviceDescription, Limits, Numerics } from "./capabilities.js";
import type { BackendError } from "./errors.js";
import type { OperationName, OperationProblems } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";
import type { Region } from "./region.js";
import type { Support } from "./support.js";

/**
 * The part of a backend that its author writes; `createBackend(driver)` makes a `ComputeBackend` from it.
 *
 * All methods are called in order, between a successful `open` and `close`, and only with checked arguments:
 * sizes are safe integers, regions lie inside live allocations, outputs do not overlap inputs, and there is
 * at least one byte or output element to produce. The effects of a call are visible to all later calls. An
 * error that a method throws reaches the caller as a `BackendError` that names the caller's operation, with
 * `DEVICE_ERROR` unless the error has a code of its own.
 *
 * `Memory` is whatever the driver keeps for one allocation.
 */
export interface BackendDriver<Memory = unknown> {
  /** Becomes `ComputeBackend.name`. */
  readonly name: string;

  /**
   * Opens the device. Throws if it cannot: `UNSUPPORTED`, with the reason, if there is no device. Called
   * again after an attempt that threw, and after the `close` that follows a loss. It then opens a fresh
   * device without the old allocations, and events of the old device are ignored.
   */
  open(events: DriverEvents): Promise<DriverDescription>;
  /**
   * Releases the device, its threads and its memory, also after a loss. Called once for each successful
   * `open`. Pending reads may reject or never settle.
   */
  close(): Promise<void>;
  /** Resolves when everything enqueued so far has finished. */
  synchronize(): Promise<void>;

  /** Reserves `bytes` > 0, zeroed if asked. Throws `OUT_OF_MEMORY` if that is known at once. */
  alloc(bytes: number, zero: boolean): Memory;
  /** Releases an allocation once the work enqueued earlier has finished with it. */
  free(memory: Memory): void;
  /** Copies all of `source` to the device. `source` may change as soon as this returns. */
  write(destination: Memory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void;
  /** Fills all of `destination` with the bytes that earlier calls left. */
  read(destination: Uint8Array<ArrayBufferLike>, source: Memory, byteOffset: number): Promise<void>;
  /**
   * Copies `source` to `destination`, both of the same length. The regions do not overlap but may lie in one
   * allocation. Byte offsets need not be aligned.
   */
  copy(destination: Region<Memory>, source: Region<Memory>): void;
  /**
   * Fills the region with a repeating 32-bit pattern: byte i of the allocation (not of the region) becomes
   * byte i % 4 of `pattern`, lowest first.
   */
  fill(destination: Region<Memory>, pattern: number): void;

  /**
   * As `write`, but `source` stays as it is, and nobody else uses the place, until the promise resolves: so each byte can be
   * copied once. Absent: moves between backends use `write`.
   */
  upload?(destination: Memory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): Promise<void>;
  /**
   * Returns the bytes of a region if they lie in memory of the host: moves between backends then copy each byte once. A
   * move asks twice. After the first call everything enqueued so far finishes, also what that call enqueued, such as the
   * preparation of memory that is about to be written; then the host uses the bytes of the second. Meanwhile nobody else uses
   * the region. Shared memory must stay where it is until `free`. Other memory may move at a call of the driver if the
   * view is detached then: the host asks again. `isWritten`: the host writes all of them, so that they may lose their contents. Absent, or undefined: they do not, and
   * copies go through `read` and `write`.
   */
  hostBytes?(region: Region<Memory>, isWritten: boolean): Uint8Array<ArrayBufferLike> | undefined;

  /** Starts the work enqueued so far without waiting for it. Absent: work starts when it is enqueued. */
  flush?(): void;
  /**
   * `read` that is complete when it returns. By then, work that failed earlier has been reported to
   * `DriverEvents.error`, or this throws its error. Called only if `open` declared `synchronousReads`.
   */
  readSync?(destination: Uint8Array<ArrayBufferLike>, source: Memory, byteOffset: number): void;

  /**
   * Begins a recording. Absent: a run of a recording calls the kernels, `copy` and `fill` again, with the same
   * problems.
   */
  record?(): DriverRecording;

  /** Returns the bytes of device memory held now, pools and scratch included. */
  reservedBytes(): number;
  /** Returns the counts of the pool. Absent: there is no pool, and all counts are 0. */
  pool?(): PoolStatistics;
  /** Releases the memory in the pool, as far as the platform takes it back. Absent: there is nothing to release. */
  trim?(): void;
  /**
   * Whether memory that has been in use is as good as new memory, and calls take turns with it by themselves: a `SwitchableBackend`
   * then keeps a few small allocations that end for the next ones of the same sizes, in place of `free` and `alloc`. Default: false.
   */
  readonly reusesMemory?: boolean;
  /** Returns the native objects of the whole device, or of one allocation. */
  native(memory?: Memory): unknown;

  /** One entry for each operation that the driver has. For any other, `supports()` is false and calls throw. */
  readonly kernels: DriverKernels<Memory>;
  /** Kernels for operations that core does not define, each operation once. Default: none. */
  readonly ownKernels?: readonly OwnKernel[];
}

/** Work that is planned once and enqueued any number of times. It consists of parts, in order. */
export interface DriverRecording {
  /**
   * Plans part `place`, or plans it anew: whatever the driver is asked for during `enqueue` (problems of kernels, `copy`
   * and `fill`) belongs to the part and is not carried out. Places begin at 0 and leave no gap. If `enqueue` throws,
   * the part is planned again before the next run.
   */
  plan(place: number, enqueue: () => void): void;
  /** Enqueues all parts. Every allocation that they use is live. */
  run(): void;
  /** Releases what the recording holds, once the work enqueued earlier has finished with it. */
  dispose(): void;
}

/** A kernel for an operation that core does not define. */
export interface OwnKernel<Problem extends object = never> extends Kernel<Problem> {
  readonly operation: Operation;
}

/** Counts of the memory that a driver holds for reuse; see `MemoryStatistics`. */
export interface PoolStatistics {
  /** Part of `reservedBytes`. */
  readonly pooledBytes: number;
  /** Since `open`. */
  readonly poolHits: number;
  readonly poolMisses: number;
}

export type DriverKernels<Memory> = {
  readonly [Name in OperationName]?: Kernel<OperationProblems<Memory>[Name]>;
};

/** A driver's implementation of one operation. */
export interface Kernel<Problem> {
  /**
   * The calls that it takes: those that any of the entries covers. All others throw `UNSUPPORTED`. The
   * options are `bias` and `activation` of gemm, batchedGemm and quantizedGemm, `activation` of conv2d, and `mask` and
   * `window` of attention, and its `logSumExp`.
   */
  readonly supports: readonly Support[];
  /** Enqueues one problem. */
  run(problem: Problem): void;
}

/** The result of opening a device. `init` rejects with `INVALID_ARGUMENT` if a member is missing or malformed. */
export interface DriverDescription {
  readonly device: DeviceDescription;
  readonly limits: Limits;
  readonly numerics: Numerics;
  /**
   * Becomes `capabilities.accuracy`. Default: none is declared.
   */
  readonly accuracy?: Accuracy;
  /** Whether `readSync` works on this thread. Default false. */
  readonly synchronousReads?: boolean;
}

/** Events that a driver reports on its own. It may call these at any time until `close`. */
export interface DriverEvents {
  /** The device is gone for good. After this only `close` is called, until the next `open`. */
  lost(reason: string): void;
  /** Work accepted earlier has failed. Rejects the next promise that a caller awaits. */
  error(error: BackendError): void;
}
