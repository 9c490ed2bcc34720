import type { Capabilities, MemoryStatistics } from "./capabilities.js";
import type { DType } from "./dtype.js";
import type { BackendError } from "./errors.js";
import type { DeviceHandle, Operand } from "./handles.js";
import type { AttentionArguments } from "./ops/attention.js";
import type { BinaryArguments } from "./ops/binary.js";
import type { Conv2dArguments } from "./ops/conv2d.js";
import type { BatchedGemmArguments, GemmArguments } from "./ops/gemm.js";
import type { OperationName } from "./ops/index.js";
import type { ReduceArguments } from "./ops/reduce.js";
import type { UnaryArguments } from "./ops/unary.js";

/**
 * Where a backend is in its life.
 *
 *   new --init--> open --the device is lost--> lost --init--> open ...
 *   any of them --dispose--> disposed
 *
 * Only an open backend takes calls: a new one throws `NOT_INITIALIZED`, a lost one `DEVICE_LOST`, a disposed one
 * `DISPOSED`. While `init` is under way, and after it has failed, the state is what it was before.
 */
export type BackendState = "new" | "open" | "lost" | "disposed";

/**
 * What every backend promises. A framework written against this interface runs on all of them.
 *
 * Time. `init`, `copyDtoH`, `synchronize` and `dispose` are asynchronous; `copyDtoHSync` waits; everything
 * else enqueues and returns at once. Calls take effect in the order in which they were made.
 *
 * Errors. Bad arguments throw a `BackendError` that names the operation (calls that answer with a
 * promise reject it) before anything is enqueued, and change nothing. The state of the backend comes
 * first: `NOT_INITIALIZED`, `DISPOSED` and `DEVICE_LOST` go before every other error. A fault of the
 * device rejects the next promise awaited, or is thrown by the next `copyDtoHSync`, and reaches `onError`.
 * No call ever answers with made-up data.
 *
 * Loss. A device that is lost takes all allocations with it. Pending promises reject with
 * `DEVICE_LOST`, and so does every call, until `init` has opened a fresh device or `dispose` has
 * ended it all. Handles from before are `INVALID_HANDLE` on the fresh device (a `SwitchableBackend`
 * keeps them, without their contents).
 *
 * Arguments. A name that a call does not know is `INVALID_ARGUMENT`, whatever stands there and whatever is
 * missing; this goes for the own properties of its object of arguments or options. What is known may be
 * inherited, too, or be a getter of a class. Slices and scalars may have properties of their
 * owner beside those that are used here. Flags are booleans. Factors are rounded to f32 and must be finite there. An offset that
 * is no whole number below 2^53 or no multiple of the element size is `INVALID_ARGUMENT`, one that
 * leads past the end `OUT_OF_BOUNDS`. A kind or element type that no backend has is
 * `INVALID_ARGUMENT`; `UNSUPPORTED` is for those that exist. A host array that is detached, or reaches
 * past a buffer that was shortened, also while a read into it is pending, is `INVALID_ARGUMENT`.
 *
 * Data. Row-major. Sizes, strides and leading dimensions count elements; offsets into allocations
 * count bytes and are multiples of the element size. An operation writes exactly its output
 * elements: gaps between rows or batches and all other bytes keep their bits. An output may not
 * overlap an input, except that `unary` and `binary` may write exactly over an input of the same
 * shape. Nothing to compute (a zero size) is legal and does nothing. Data of type f16 is widened to
 * f32, computed in f32 and rounded once.
 */
export interface ComputeBackend extends AsyncDisposable {
  /** Short and stable, such as `cpu` or `webgpu`. */
  readonly name: string;
  /**
   * Device, limits and declared numerics. Throws `NOT_INITIALIZED` before `init` has resolved.
   * While the device is lost they are still there.
   */
  readonly capabilities: Capabilities;

  // Lifecycle. `name`, `state`, `supports`, `memory` and the listeners may be used at any time.

  readonly state: BackendState;
  /**
   * Opens the device, and a fresh one after a loss. Other calls after the first return the same
   * promise; a failed one may be retried. Rejects with `DISPOSED` after `dispose`.
   */
  init(): Promise<void>;
  /**
   * Sends all work enqueued so far to the device, and does not wait for it. Backends do so by themselves, at
   * the latest when the caller's synchronous code ends: this is for a caller who computes on the host meanwhile.
   */
  flush(): void;
  /** Resolves when all work enqueued so far has finished; rejects with the fault if there was one. */
  synchronize(): Promise<void>;
  /** Frees everything and closes the device. Pending reads reject with `DISPOSED`. Idempotent. */
  dispose(): Promise<void>;
  /** Calls the listener at each loss, and at once where the device is lost. Returns "stop listening". */
  onLost(listener: (error: BackendError) => void): () => void;
  /** Calls the listener at each fault of the device. Returns "stop listening". */
  onError(listener: (error: BackendError) => void): () => void;
  /**
   * Whether an operation takes an element type; for reduce, unary and binary also whether it has
   * one `kind`; for gemm, batchedGemm and conv2d, with the kind "epilogue", whether it takes an
   * `activation` (and gemm a `bias`). Where the answer is false the call throws `UNSUPPORTED`.
   */
  supports(operation: OperationName, dtype: DType, kind?: string): boolean;
  /** After a loss or `dispose` nothing is live and nothing reserved; the peak stays. */
  memory(): MemoryStatistics;
  /**
   * Gives memory that is held for reuse back to the system, as far as that is possible: afterwards
   * `pooledBytes` is no more than before, and 0 where all can be given back. What is live keeps its contents.
   */
  trim(): void;
  /** The objects underneath, for interoperation: the whole device, or what stands behind a handle. */
  native(handle?: DeviceHandle): unknown;

  // Memory

  /** Reserves `bytes` (0 is legal). The bytes read as zeros unless `zero: false` is asked for. */
  alloc(bytes: number, options?: AllocOptions): DeviceHandle;
  /** Ends a handle. Work already enqueued on it still completes. */
  free(handle: DeviceHandle): void;
  /** Copies all bytes of `source` to `destination`. `source` may be changed as soon as this returns. */
  copyHtoD(destination: Operand, source: HostBytes): void;
  /** Fills all of `destination` from `source`, as it was left by the calls before this one. */
  copyDtoH(destination: HostBytes, source: Operand): Promise<void>;
  /**
   * `copyDtoH` that has happened when it returns: waits for all calls before it, and throws what `copyDtoH`
   * would reject with. `UNSUPPORTED` unless `capabilities.synchronousReads`. Whatever else the thread has
   * to do waits meanwhile, so `copyDtoH` is the better choice for whoever can await.
   */
  copyDtoHSync(destination: HostBytes, source: Operand): void;
  /** Copies `bytes` between places that do not overlap. */
  copyDtoD(destination: Operand, source: Operand, bytes: number): void;
  /** Writes `value` `count` times, as elements of type `dtype` (default f32; u8 takes whole numbers to 255). */
  fill(destination: Operand, value: number, count: number, dtype?: DType | "u8"): void;

  // Operations

  /** C = activation(alpha op(A) op(B) + beta C + bias), the activation and the bias being optional */
  gemm(args: GemmArguments): void;
  /** C[i] = activation(alpha op(A[i]) op(B[i]) + beta C[i] + bias) for each i of a batch */
  batchedGemm(args: BatchedGemmArguments): void;
  /** output = activation(input (cross-correlated with) filter + bias), NCHW */
  conv2d(args: Conv2dArguments): void;
  /** out = softmax(scale q k^T, causally masked if asked for) v */
  attention(args: AttentionArguments): void;
  /** Sum, mean, max, min or product over some axes */
  reduce(args: ReduceArguments): void;
  /** output[i] = f(input[i]) */
  unary(args: UnaryArguments): void;
  /** output[i] = f(a[i], b[i]), with broadcasting */
  binary(args: BinaryArguments): void;
}

/** Bytes of the host: any typed array, DataView or buffer, shared or not. A subarray is a range. */
export type HostBytes = ArrayBufferView<ArrayBufferLike> | ArrayBufferLike;

export interface AllocOptions {
  /** False: the caller will overwrite every byte before reading any. Default true. */
  readonly zero?: boolean;
}
