import type { Capabilities, MemoryStatistics } from "./capabilities.js";
import type { DType } from "./dtype.js";
import type { BackendError } from "./errors.js";
import type { DeviceHandle, Operand } from "./handles.js";
import type { OperationName } from "./ops/index.js";
import type { OperationMethods } from "./ops/methods.js";
import type { Operation } from "./ops/operation.js";
import type { Question } from "./support.js";

/**
 * The state of a backend.
 *
 *   new --init--> open --the device is lost--> lost --init--> open ...
 *   any of them --dispose--> disposed
 *
 * Only an open backend takes calls: a new one throws `NOT_INITIALIZED`, a lost one `DEVICE_LOST`, a disposed
 * one `DISPOSED`. The state does not change while `init` is under way, nor if it fails.
 */
export type BackendState = "new" | "open" | "lost" | "disposed";

/**
 * The contract of every backend. A framework written against this interface runs on all of them.
 *
 * Time. `init`, `copyDtoH`, `synchronize` and `dispose` are asynchronous. `copyDtoHSync` waits. Every other
 * call enqueues its work and returns at once. Calls take effect in the order in which they were made.
 *
 * Errors. Bad arguments throw a `BackendError` that names the operation; calls that return a promise reject it
 * instead. This happens before anything is enqueued and changes nothing. The state of the backend is checked
 * first: `NOT_INITIALIZED`, `DISPOSED` and `DEVICE_LOST` precede every other error. A fault of the device
 * rejects the next promise awaited, or is thrown by the next `copyDtoHSync`, and reaches `onError`. No call
 * ever returns made-up data.
 *
 * Loss. A lost device takes all allocations with it. Pending promises and all later calls fail with
 * `DEVICE_LOST` until `init` opens a fresh device or `dispose` ends the backend. Older handles are
 * `INVALID_HANDLE` on the fresh device; a `SwitchableBackend` keeps them, without their contents.
 *
 * Arguments. An unknown name is `INVALID_ARGUMENT`, whatever its value, and is reported before a missing one.
 * This applies to the own properties of the object of arguments or options. A known argument may also be
 * inherited, or be a getter of a class. Slices and scalars may have further properties of their owner. Flags
 * are booleans. Factors are rounded to f32 and must be finite there. An offset is `INVALID_ARGUMENT` if it is
 * not a whole number below 2^53 or not a multiple of the element size, and `OUT_OF_BOUNDS` if the region ends
 * past its allocation. A kind or element type that no backend has is `INVALID_ARGUMENT`; one that only this
 * backend lacks is `UNSUPPORTED`. A host array is `INVALID_ARGUMENT` if its buffer is detached or too short
 * for it, even if that happens while a read into it is pending.
 *
 * Data. Arrays are row-major. Sizes, strides and leading dimensions count elements. Offsets into allocations
 * count bytes and are multiples of the element size. An operation writes exactly its output elements: gaps
 * between rows or batches and all other bytes keep their bits. An output may not overlap an input, except that
 * `unary` and `binary` may write exactly over an input of the same shape. A call with a zero size and nothing
 * to compute is legal and does nothing. Data of type f16 is widened to f32, computed in f32 and rounded once.
 */
export interface ComputeBackend extends OperationMethods, AsyncDisposable {
  /** A short and stable name, such as `cpu` or `webgpu`. */
  readonly name: string;
  /**
   * Device, limits and declared numerics. Throws `NOT_INITIALIZED` before `init` has resolved. Can still be
   * read while the device is lost.
   */
  readonly capabilities: Capabilities;

  // Lifecycle. `name`, `state`, `supports`, `memory` and the listeners may be used at any time.

  readonly state: BackendState;
  /**
   * Opens the device; after a loss, opens a fresh one. Further calls return the same promise. A failed
   * attempt can be repeated. Rejects with `DISPOSED` after `dispose`.
   */
  init(): Promise<void>;
  /**
   * Sends all work enqueued so far to the device, without waiting for it. Backends do this by themselves when
   * the caller's synchronous code ends, or earlier. A caller needs it only to compute on the host meanwhile.
   */
  flush(): void;
  /** Resolves when all work enqueued so far has finished. Rejects with the device's fault if there was one. */
  synchronize(): Promise<void>;
  /** Frees everything and closes the device. Pending reads reject with `DISPOSED`. Idempotent. */
  dispose(): Promise<void>;
  /**
   * Calls the listener at each loss, and at once if the device is lost now. Returns a function that removes
   * the listener.
   */
  onLost(listener: (error: BackendError) => void): () => void;
  /** Calls the listener at each fault of the device. Returns a function that removes the listener. */
  onError(listener: (error: BackendError) => void): () => void;
  /**
   * Whether calls with these arguments work: `supports("unary", { kind: "erf", dtype: "f16" })`. If this
   * returns false, they throw `UNSUPPORTED`, or `INVALID_ARGUMENT` for a name or value that no backend knows. Throws
   * `INVALID_ARGUMENT` if the question is no object.
   */
  supports(operation: OperationName | Operation, question?: Question): boolean;
  /** Returns the memory statistics. After a loss or `dispose` nothing is live or reserved; the peak stays. */
  memory(): MemoryStatistics;
  /**
   * Returns memory held for reuse to the system, as far as possible. Afterwards `pooledBytes` is no larger
   * than before, and 0 if all of it could be returned. Live allocations keep their contents.
   */
  trim(): void;
  /** Returns the native objects, for interoperation: those of the whole device, or those behind a handle. */
  native(handle?: DeviceHandle): unknown;

  // Memory

  /** Reserves `bytes` (0 is legal). The bytes read as zeros unless the options say `zero: false`. */
  alloc(bytes: number, options?: AllocOptions): DeviceHandle;
  /** Ends a handle. Work already enqueued on it still completes. */
  free(handle: DeviceHandle): void;
  /** Copies all bytes of `source` to `destination`. The caller may change `source` as soon as this returns. */
  copyHtoD(destination: Operand, source: HostBytes): void;
  /** Fills all of `destination` with the bytes of `source` as earlier calls left them. */
  copyDtoH(destination: HostBytes, source: Operand): Promise<void>;
  /**
   * `copyDtoH` that is complete when it returns. Waits for all earlier calls and throws the error that
   * `copyDtoH` would reject with. Throws `UNSUPPORTED` unless `capabilities.synchronousReads`. It blocks the
   * whole thread, so prefer `copyDtoH` if you can await.
   */
  copyDtoHSync(destination: HostBytes, source: Operand): void;
  /** Copies `bytes` bytes between two regions that do not overlap. */
  copyDtoD(destination: Operand, source: Operand, bytes: number): void;
  /**
   * Writes `value` `count` times as elements of type `dtype`. Default: f32. Integer types take the whole
   * numbers that they hold; others round to nearest.
   */
  fill(destination: Operand, value: number, count: number, dtype?: DType): void;

  // Operations. Each core operation has a method, such as `gemm(args)`. `run(operation, args)` takes these and
  // operations defined elsewhere. `record(body)` prepares calls that are to be made many times. A class that implements this
  // interface inherits them all from `OperationMethods`.
}

/** Bytes of the host: any typed array, DataView or buffer, shared or not. A subarray stands for its own range only. */
export type HostBytes = ArrayBufferView<ArrayBufferLike> | ArrayBufferLike;

export interface AllocOptions {
  /** False promises that the caller overwrites every byte before reading any. Default: true. */
  readonly zero?: boolean;
}
