import type { Accuracy } from "./accuracy.js";
import type { DeviceDescription, Limits, Numerics } from "./capabilities.js";
import type { DType } from "./dtype.js";
import type { BackendError } from "./errors.js";
import type { OperationName, OperationProblems } from "./ops/index.js";
import type { Operation } from "./ops/operation.js";
import type { Region } from "./region.js";

/**
 * What an implementer writes; `createBackend(driver)` makes a `ComputeBackend` of it. All methods
 * are called in order, between a successful `open` and `close`, and only with arguments that have
 * been checked: sizes are safe integers, regions lie inside live allocations, outputs do not
 * overlap inputs, and at least one byte or output element is to be produced. Whatever happens in
 * one call is visible to all later ones. What a method throws reaches the caller as a `BackendError` that
 * names the caller's operation, with `DEVICE_ERROR` unless it has a code of its own.
 *
 * `Memory` is whatever the driver keeps for one allocation.
 */
export interface BackendDriver<Memory = unknown> {
  /** Becomes `ComputeBackend.name`. */
  readonly name: string;

  /**
   * Opens the device, or throws (`UNSUPPORTED` with the reason where there is none). Called again
   * after an attempt that threw, and after the `close` that follows a loss: for a fresh device then,
   * that knows nothing of what was allocated on the one before. Events of the one before are ignored.
   */
  open(events: DriverEvents): Promise<DriverDescription>;
  /**
   * Releases the device, threads and memory, also of a device that was lost. Called once for each
   * successful `open`. Reads that are pending may reject or never settle.
   */
  close(): Promise<void>;
  /** Resolves when everything enqueued so far has finished. */
  synchronize(): Promise<void>;

  /** Reserves `bytes` > 0, zeroed if asked. Throws `OUT_OF_MEMORY` where that is known at once. */
  alloc(bytes: number, zero: boolean): Memory;
  /** Releases an allocation once the work enqueued before has used it. */
  free(memory: Memory): void;
  /** Copies the whole of `source` to the device. `source` may change when this returns. */
  write(destination: Memory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void;
  /** Fills the whole of `destination` with bytes as the calls before this one left them. */
  read(destination: Uint8Array<ArrayBufferLike>, source: Memory, byteOffset: number): Promise<void>;
  /** Copies `bytes`; the two regions do not overlap but may lie in one allocation. Any byte offsets. */
  copy(destination: Region<Memory>, source: Region<Memory>): void;
  /**
   * Writes a repeating 32-bit pattern: the byte at place i of the allocation (not of the region)
   * becomes byte i % 4 of `pattern`, lowest first.
   */
  fill(destination: Region<Memory>, pattern: number): void;

  /** Begins what was enqueued so far, and does not wait for it. Absent: everything is begun when it is enqueued. */
  flush?(): void;
  /**
   * What `read` does, done when it returns. Work that failed before is reported by `DriverEvents.error`, or
   * thrown, until then. Called only where `open` has declared `synchronousReads`.
   */
  readSync?(destination: Uint8Array<ArrayBufferLike>, source: Memory, byteOffset: number): void;

  /** Bytes of device memory held now, pools and scratch included. */
  reservedBytes(): number;
  /** Absent: there is no pool, and all counts are 0. */
  pool?(): PoolStatistics;
  /** Releases what the pool holds, as far as the platform takes it back. Absent: there is nothing to release. */
  trim?(): void;
  /** The objects underneath: for the whole device, or for one allocation. */
  native(memory?: Memory): unknown;

  /** One entry per operation the driver has. Absent: `supports()` is false, calls throw. */
  readonly kernels: DriverKernels<Memory>;
  /** Kernels for operations that are not core's, each operation once. Default: none. */
  readonly ownKernels?: readonly OwnKernel[];
}

/** A kernel for an operation that somebody else than core has defined. */
export interface OwnKernel<Problem extends object = never> extends Kernel<Problem> {
  readonly operation: Operation;
}

/** What a driver says of the memory that it holds for reuse; see `MemoryStatistics`. */
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

/** How a driver does one operation. */
export interface Kernel<Problem> {
  readonly dtypes: readonly DType[];
  /** For reduce, unary and binary: the kinds it has. Default: all. */
  readonly kinds?: readonly string[];
  /**
   * For gemm, batchedGemm and conv2d: `run` heeds `activation`, and for the first two also `bias`.
   * Default false: both are always undefined (the bias of conv2d is no part of this), and calls that
   * ask for them throw `UNSUPPORTED`.
   */
  readonly epilogue?: boolean;
  /** Enqueues one problem. */
  run(problem: Problem): void;
}

/** What a driver learned when it opened its device. */
export interface DriverDescription {
  readonly device: DeviceDescription;
  readonly limits: Limits;
  readonly numerics: Numerics;
  /**
   * Becomes `capabilities.accuracy`. Default: none declared. `init` rejects with `INVALID_ARGUMENT` where it is
   * malformed.
   */
  readonly accuracy?: Accuracy;
  /** Whether `readSync` works on this thread. Default false. */
  readonly synchronousReads?: boolean;
}

/** How a driver reports what nobody asked about. May be called at any time until `close`. */
export interface DriverEvents {
  /** The device is gone for good: nothing but `close` is called after this, until `open` again. */
  lost(reason: string): void;
  /** Work accepted earlier has failed. Rejects the next promise that a caller awaits. */
  error(error: BackendError): void;
}
