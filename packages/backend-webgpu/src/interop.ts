import type { BackendProvider, ComputeBackend, DeviceHandle } from "@backplane/core";
import type { NativeBuffer } from "./device/index.js";
import type { Profile, ProfileOptions } from "./profile/profile.js";
import type { ExportedBuffer, ImportOptions } from "./runtime/sharing.js";
import type { TuningData } from "./tuning/data.js";
import type { TuneOptions, TuneReport } from "./tuning/report.js";
import type { WarmupOptions, WarmupReport } from "./warmup/report.js";

/** What a backend on WebGPU has beyond every other. */
export interface WebGpuBackend extends ComputeBackend {
  /**
   * A handle for a `GPUBuffer` that someone else made on the backend's device (`native()`, or the option
   * `device`), to be used like any other; a place inside it is `{ handle, byteOffset }`. Work submitted
   * before comes before the backend's, as the queue is the same. `free(handle)` and `dispose()` end the
   * handle and leave the buffer alone; it counts in `memory()` until then. Destroying the buffer before
   * makes the work that uses it fail (`DEVICE_ERROR`), and so does a buffer of another device.
   *
   * Throws `INVALID_ARGUMENT` unless the buffer is unmapped, has the usages STORAGE, COPY_SRC and
   * COPY_DST, a size in bytes that is a multiple of 16 and at most `limits.maxAllocationBytes`, and no
   * live handle already.
   */
  importBuffer(buffer: NativeBuffer, options?: ImportOptions): DeviceHandle;

  /**
   * The `GPUBuffer` of an allocation and where the allocation lies in it. All work enqueued before has
   * been submitted, so what you submit comes after it; submit your own use of the buffer before you call
   * the backend again, and then never mix the two in one command buffer. Valid until the handle is freed,
   * or the backend disposed of or its device lost: a freed buffer serves other allocations or is
   * destroyed. Bytes beyond `byteLength` belong to the backend.
   *
   * Throws `INVALID_HANDLE`, and `INVALID_ARGUMENT` for an allocation of 0 bytes, which has no buffer.
   */
  exportBuffer(handle: DeviceHandle): ExportedBuffer;

  /**
   * Runs `work` and waits for it and for the device, and tells how long each kernel took there. All that
   * the backend does meanwhile is measured, whoever asks for it. Each dispatch has a compute pass of its
   * own then, with a timestamp at either end, which costs a few microseconds each; work that is not
   * profiled pays nothing.
   *
   * Rejects with what `work` throws, and with faults and losses of the device like `synchronize()`;
   * with `UNSUPPORTED` where the device lacks WebGPU's feature `timestamp-query`; with
   * `BUSY` while another profile is being taken. Nothing is measured any more after it.
   */
  profile<Result>(
    work: () => Result | PromiseLike<Result>,
    options?: ProfileOptions,
  ): Promise<Profile<Result>>;

  /**
   * Compiles, without blocking anybody, the kernels that the calls in `plan` will need, so that their
   * first real run does not wait for that. `plan` is run once, with a backend that computes nothing and
   * holds no memory: what it allocates is blank, reads leave their destinations as they are. It may use
   * live handles of this backend, whose contents stay untouched. Kernels depend on shapes in classes
   * (tile, alignment, transposition), on element types and on whether offsets are multiples of 16
   * bytes, seldom on exact sizes; what a real call needs beyond the plan is compiled by that call.
   *
   * Rejects with what `plan` throws, such as the `BackendError` of a call with bad arguments; with
   * `DEVICE_ERROR` and the kernel's name where the device refuses one, after the others are done.
   */
  warmup(plan: (backend: ComputeBackend) => unknown, options?: WarmupOptions): Promise<WarmupReport>;

  /**
   * Finds, for each shape of gemm, batchedGemm, conv2d, attention and reduce among the calls in `plan`,
   * the fastest of the kernels that fit, and takes it from then on. `plan` is run once, like that of
   * `warmup`. A shape is all that the choice of a kernel looks at (sizes, element type, transposition,
   * alignment); other shapes are computed as before, however close. Each kernel is compiled, compared
   * with the default one on numbers of our own, and timed: in rounds, by timestamps of the device
   * where it has them, else by waiting. The default one stays unless another is faster by a margin. The
   * backend can be used meanwhile; but what else the device has to do blurs the times.
   *
   * Another kernel may sum in another order: results may differ in their last bits from those before
   * `tune`, and between runs and machines that tuned apart.
   *
   * Rejects, changing nothing, with what `plan` throws; with the reason of `signal`; with
   * `BUSY` while it runs already or a profile is being taken; with `DEVICE_LOST` and
   * `DISPOSED`. Shapes for which there is no memory, or no time left, are skipped, and the report says so.
   */
  tune(plan: (backend: ComputeBackend) => unknown, options?: TuneOptions): Promise<TuneReport>;

  /**
   * The choices in use, imported and found here, to be kept for the option `tuning` of a later run; no
   * entries where there are none. Throws `NOT_INITIALIZED`, `DEVICE_LOST` or `DISPOSED`.
   */
  readonly tuning: TuningData;

  /**
   * For tests of what happens then: loses the device, as a driver might at any time. Resolves when
   * `onLost` has been told. A device that was given by the option `device` is destroyed, too.
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
