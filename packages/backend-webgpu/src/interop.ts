import type { BackendProvider, ComputeBackend, DeviceHandle } from "@backplane/core";
import type { NativeBuffer } from "./device/index.js";
import type { Profile, ProfileOptions } from "./profile/profile.js";
import type { ExportedBuffer, ImportOptions } from "./runtime/sharing.js";
import type { TuningData } from "./tuning/data.js";
import type { TuneOptions, TuneReport } from "./tuning/report.js";
import type { WarmupOptions, WarmupReport } from "./warmup/report.js";

/** The features that a backend on WebGPU has beyond every other. */
export interface WebGpuBackend extends ComputeBackend {
  /**
   * A handle for a `GPUBuffer` that someone else made on the backend's device (`native()`, or the option
   * `device`), to be used like any other; a place inside it is `{ handle, byteOffset }`. Work submitted
   * before comes before the backend's, as the queue is the same. `free(handle)` submits all work that uses the
   * buffer; it and `dispose()` end the handle and leave the buffer alone, which counts in `memory()` until then.
   * Destroying the buffer before makes the work that uses it fail (`DEVICE_ERROR`), and so does a buffer of another
   * device.
   *
   * Throws `INVALID_ARGUMENT` unless the buffer is unmapped, has the usages STORAGE, COPY_SRC and
   * COPY_DST, a size in bytes that is a multiple of 16 and at most `limits.maxAllocationBytes`, and no
   * live handle already.
   */
  importBuffer(buffer: NativeBuffer, options?: ImportOptions): DeviceHandle;

  /**
   * Returns the `GPUBuffer` of an allocation and the allocation's place in it. All work enqueued before has
   * been submitted, so work that you submit comes after it. Submit your own use of the buffer before you call
   * the backend again, and never mix the two in one command buffer. The buffer is valid until the handle is
   * freed, the backend is disposed of or its device is lost: a freed buffer serves other allocations or is
   * destroyed. Bytes beyond `byteLength` belong to the backend.
   *
   * Throws `INVALID_HANDLE`, and `INVALID_ARGUMENT` for an allocation of 0 bytes, which has no buffer.
   */
  exportBuffer(handle: DeviceHandle): ExportedBuffer;

  /**
   * Runs `work`, waits for it and for the device, and returns how long each kernel took on the device. It
   * measures everything that the backend does meanwhile, for any caller. Each dispatch then has a compute
   * pass of its own, with a timestamp at either end, which costs a few microseconds each; work that is not
   * profiled pays nothing.
   *
   * Rejects with the error of `work`; with faults and losses of the device, like `synchronize()`; with
   * `UNSUPPORTED` if the device lacks WebGPU's feature `timestamp-query`; and with `BUSY` while another
   * profile is being taken. Measuring has then ended.
   */
  profile<Result>(
    work: () => Result | PromiseLike<Result>,
    options?: ProfileOptions,
  ): Promise<Profile<Result>>;

  /**
   * Compiles the kernels that the calls in `plan` will need, without blocking, so that their first real run
   * does not wait for that. `plan` runs once, with a backend that computes nothing and holds no memory: its
   * allocations are blank, and reads leave their destinations unchanged. It may use live handles of this
   * backend, whose contents stay untouched. Kernels depend on shapes in classes (tile, alignment,
   * transposition), on element types and on whether offsets are multiples of 16 bytes, and seldom on exact
   * sizes. Further kernels that a real call needs are compiled by that call.
   *
   * Rejects with any error that `plan` throws, such as the `BackendError` of a call with bad arguments. Rejects
   * with `DEVICE_ERROR` and the kernel's name if the device refuses a kernel, after the others are done.
   */
  warmup(plan: (backend: ComputeBackend) => unknown, options?: WarmupOptions): Promise<WarmupReport>;

  /**
   * Finds the fastest of the kernels that fit, for each shape of an operation with several (see `variantNames`;
   * gemm's are for batchedGemm too) among the calls in `plan`, and uses it from then on. `plan` runs once, like that of `warmup`. A
   * shape is everything that the choice of a kernel depends on (sizes, element type, transposition,
   * alignment); other shapes are computed as before, however close. Each kernel is compiled, compared with
   * the default one on test numbers, and timed in rounds: by timestamps if the device has them, otherwise by
   * waiting. The default one stays unless another is faster by a margin. The backend can be used meanwhile,
   * but other work on the device makes the times less accurate.
   *
   * Another kernel may sum in another order. Results may then differ in their last bits from those before
   * `tune`, and between runs and machines that were tuned separately.
   *
   * Rejects, changing nothing, with any error that `plan` throws; with the reason of `signal`; with `BUSY`
   * while it already runs or a profile is being taken; with `DEVICE_LOST` and `DISPOSED`. Skips shapes for
   * which there is no memory or no time left; the report lists them.
   */
  tune(plan: (backend: ComputeBackend) => unknown, options?: TuneOptions): Promise<TuneReport>;

  /**
   * The choices in use, imported or found here, to be kept for the option `tuning` of a later run. Has no
   * entries if there are none. Throws `NOT_INITIALIZED`, `DEVICE_LOST` or `DISPOSED`.
   */
  readonly tuning: TuningData;

  /**
   * Loses the device, as a driver might at any time; for tests. Resolves when the `onLost` listeners have
   * been called. Also destroys a device that was given by the option `device`.
   */
  loseDevice(): Promise<void>;
}

/** Offers `WebGpuBackend`s to a registry. */
export interface WebGpuProvider extends BackendProvider {
  create(): WebGpuBackend;
}

/** Whether a backend, from a registry say, is one of this package, with the methods above. */
export function isWebGpuBackend(backend: ComputeBackend): backend is WebGpuBackend {
  const { name, importBuffer, exportBuffer } = backend as Partial<WebGpuBackend>;
  return name === "webgpu" && typeof importBuffer === "function" && typeof exportBuffer === "function";
}
