import {
  type BackendDriver,
  BackendError,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  type Numerics,
  type Region,
} from "@backplane/core";
import type { DeviceFeatures, KernelContext, OperationContext } from "./context.js";
import { adoptDevice, type OpenDevice, openDevice, openingLine, requestAdapter } from "./device.js";
import type { TunedVariants } from "./features.js";
import { ForeignBuffers } from "./foreign.js";
import { faultOf, Guard } from "./guard.js";
import { immediateBytes } from "./immediates.js";
import type { ImportOptions, WarmupOptions, WarmupReport } from "./interop.js";
import { forcedDetails } from "./kernels/forced.js";
import { splittingDetails } from "./kernels/gemm/index.js";
import { boundKernels } from "./kernels/index.js";
import { choiceLog, observeChoices } from "./kernels/variant.js";
import { BUFFER_GRANULARITY, type DeviceMemory, MemoryPool } from "./memory.js";
import type { FindGpu, NativeBuffer } from "./native.js";
import { checkOptions, type WebGpuOptions } from "./options.js";
import { PipelineCache } from "./pipelines.js";
import { Profiling } from "./profiler.js";
import type { Program } from "./program.js";
import { CommandQueue } from "./queue.js";
import { Readback } from "./readback.js";
import { Recorder, windowBytes } from "./recorder.js";
import { writeEdges } from "./transfers.js";
import { mergeTuning, TUNING_FORMAT, type TuningData, type TuningEntry } from "./tuning/data.js";
import { openTuningDevice, type TuningDevice, type TuningSession } from "./tuning/device.js";
import { type TunedTable, tableOf } from "./tuning/table.js";
import { Uploads } from "./uploads.js";
import { packageVersion } from "./version.js";
import { PlanDriver, type ProblemListener, prepareAll } from "./warmup.js";

/** WGSL lets implementations assume that there are no NaNs or infinities, flush subnormals, and round. */
const numerics: Numerics = {
  nan: "unspecified",
  infinity: "unspecified",
  subnormals: "flushed",
  signedZero: "unspecified",
  rounding: "unspecified",
  // Reductions run in a fixed order; no kernel uses floating-point atomics.
  deterministic: true,
};

const DEFAULT_POOL_BYTES = 512 * 2 ** 20;

/** What a device that is lost finds. It may live on for long, and so does whatever waits for its loss. */
interface LossWatch {
  /** Undefined once the session is closed. */
  onLoss: ((reason: string) => void) | undefined;
}

/** All that exists while the device is open. */
interface Session extends TuningSession {
  readonly opened: OpenDevice;
  readonly pipelines: PipelineCache;
  readonly uploads: Uploads;
  readonly foreign: ForeignBuffers;
  /** The allocations whose buffers callers have been given. */
  readonly exported: WeakMap<GPUBuffer, DeviceMemory>;
  /** Undefined on a device that was given: what nobody captured there is not known to be ours. */
  readonly onUncaptured: ((event: GPUUncapturedErrorEvent) => void) | undefined;
  readonly lossWatch: LossWatch;
  readonly tuned: TunedTable;
  /** Nothing is reported any more. */
  closing: boolean;
}

/** Backplane on a WebGPU device. `findGpu` answers `navigator.gpu` or what stands in for it. */
export class WebGpuDriver implements BackendDriver<DeviceMemory> {
  readonly name = "webgpu";
  readonly kernels: DriverKernels<DeviceMemory>;
  readonly #findGpu: FindGpu;
  readonly #options: WebGpuOptions;
  #open: Session | undefined;
  /** What was found on the devices so far. */
  #found: TuningData[] = [];
  /** Dawn aborts the process if this is collected while a device lives. */
  #gpu: GPU | undefined;

  constructor(findGpu: FindGpu, options: WebGpuOptions = {}) {
    checkOptions(options);
    this.#findGpu = findGpu;
    this.#options = options;
    this.kernels = boundKernels(options.variants ?? {}, (operation, enqueue, flops) =>
      this.#record(operation, enqueue, flops),
    );
  }

  async open(events: DriverEvents): Promise<DriverDescription> {
    const opened = await this.#openDevice();
    const maxBytes = opened.maxBufferBytes - (opened.maxBufferBytes % BUFFER_GRANULARITY);
    const { poolBytes = DEFAULT_POOL_BYTES, disableFeatures = [] } = this.#options;
    const immediates = immediateBytes(opened.device, this.#source, disableFeatures);
    const { description } = opened;
    const { log } = this.#options;
    if (log !== undefined) {
      log(openingLine(opened));
      observeChoices(opened.features, choiceLog(log));
    }
    const tuned = tableOf(opened.place, this.#options, this.#found);
    this.#open = makeSession(opened, tuned, events, maxBytes, poolBytes, immediates, disableFeatures);
    useTuning(this.#open);
    const forced = forcedDetails(this.#options.variants);
    const details = { ...description.details, ...forced, ...splittingDetails(opened.features) };
    return { device: { ...description, details }, limits: { maxAllocationBytes: maxBytes }, numerics };
  }

  async close(): Promise<void> {
    const session = this.#session;
    session.closing = true;
    session.lossWatch.onLoss = undefined;
    this.#open = undefined;
    const { device, owned } = session.opened;
    if (session.onUncaptured !== undefined)
      device.removeEventListener("uncapturederror", session.onUncaptured as EventListener);
    session.queue.destroy();
    session.profiling.destroy();
    session.readback.destroy(new BackendError("DISPOSED", "copyDtoH: the backend was disposed"));
    session.pool.destroyAll();
    if (owned) {
      device.destroy();
      await device.lost;
    }
  }

  async synchronize(): Promise<void> {
    const { queue, opened, readback, guard } = this.#session;
    const submitted = queue.flush();
    await readback.guard(opened.device.queue.onSubmittedWorkDone());
    queue.finished(submitted);
    // What the device refused is to be known to those who waited.
    await readback.guard(guard.settled());
  }

  alloc(bytes: number, zero: boolean): DeviceMemory {
    const { pool, guard } = this.#session;
    guard.enter("alloc");
    return pool.acquire(bytes, zero);
  }

  free(memory: DeviceMemory): void {
    const { pool, foreign } = this.#session;
    if (!foreign.release(memory)) pool.release(memory);
  }

  write(destination: DeviceMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    const { profiler } = this.#session.profiling;
    if (profiler === undefined) this.#write(destination, byteOffset, source);
    else {
      profiler.uploaded(source.byteLength);
      profiler.call("copyHtoD", () => this.#write(destination, byteOffset, source));
    }
  }

  #write(destination: DeviceMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    const { recorder, uploads } = this.#session;
    const { start, end } = recorder.run("copyHtoD", () =>
      this.#prepareWrite(destination, byteOffset, source),
    );
    uploads.write(destination.buffer, byteOffset + start, source.subarray(start, end));
  }

  /** Records what has to come before a write, and the words that it covers in part; answers the rest. */
  #prepareWrite(
    destination: DeviceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): { readonly start: number; readonly end: number } {
    const { recorder, queue, guard } = this.#session;
    guard.enter("copyHtoD");
    const region = { memory: destination, byteOffset, byteLength: source.byteLength };
    destination.overwrite(byteOffset, source.byteLength);
    destination.beforeWrite();
    // A write of the queue takes effect before commands that are recorded but not yet submitted.
    if (destination.stale) {
      guard.enterCommands("copyHtoD");
      recorder.touch(destination);
    }
    if (destination.batch === queue.batch) queue.flush();
    const inner = writeEdges(recorder, region, source);
    if (inner.end - inner.start < source.byteLength) guard.enterCommands("copyHtoD");
    return inner;
  }

  async read(
    destination: Uint8Array<ArrayBufferLike>,
    source: DeviceMemory,
    byteOffset: number,
  ): Promise<void> {
    const { recorder, readback, guard, profiling } = this.#session;
    const { profiler } = profiling;
    guard.enterCommands("copyDtoH");
    const read = (): Promise<void> =>
      recorder.run("copyDtoH", () => readback.read(destination, source, byteOffset));
    profiler?.downloaded(destination.byteLength);
    await (profiler === undefined ? read() : profiler.call("copyDtoH", read));
    await readback.guard(guard.settled());
  }

  copy(destination: Region<DeviceMemory>, source: Region<DeviceMemory>): void {
    this.#record("copyDtoD", (context) => context.copy(destination, source));
  }

  fill(destination: Region<DeviceMemory>, pattern: number): void {
    this.#record("fill", (context) => context.fill(destination, pattern));
  }

  reservedBytes(): number {
    const { queue, pool, readback, foreign, profiling } = this.#session;
    return [queue, pool, readback, foreign, profiling].reduce((sum, holder) => sum + holder.reservedBytes, 0);
  }

  /** The GPUDevice, or the GPUBuffer of an allocation. All work enqueued so far has been submitted. */
  native(memory?: DeviceMemory): unknown {
    const { recorder, queue, opened, guard, exported } = this.#session;
    guard.enter("native");
    if (memory !== undefined) {
      recorder.touch(memory);
      // The caller may write to it.
      memory.beforeWrite();
    }
    queue.flush();
    if (memory === undefined) return opened.device;
    exported.set(memory.buffer, memory);
    return memory.buffer;
  }

  /** Memory in a buffer that someone else made; see `WebGpuBackend.importBuffer`. Ends with `free`. */
  importBuffer(buffer: NativeBuffer, options: ImportOptions): DeviceMemory {
    const { foreign, exported } = this.#session;
    return foreign.take(buffer, options, (candidate) => exported.has(candidate));
  }

  /** The bytes of the allocation whose buffer `native` has given out. */
  exportedBytes(buffer: NativeBuffer): number {
    return this.#session.exported.get(buffer)!.bytes;
  }

  /** What measures the device that is open. */
  get profiling(): Profiling {
    return this.#session.profiling;
  }

  /** A driver that does nothing but take note of the programs that calls would need. */
  plan(
    description: DriverDescription,
    features: DeviceFeatures = this.#session.opened.features,
    onProblem?: ProblemListener,
  ): PlanDriver {
    return new PlanDriver(features, this.#options.variants ?? {}, description, onProblem);
  }

  /** What was tuned for the device that is open. */
  get tuning(): TuningData {
    const { opened, tuned } = this.#session;
    return { format: TUNING_FORMAT, version: packageVersion, ...opened.place, entries: tuned.entries };
  }

  #addTuning(entries: readonly TuningEntry[]): void {
    const session = this.#session;
    session.tuned.add(entries);
    useTuning(session);
    this.#found = mergeTuning([...this.#found, { ...this.tuning, entries }]);
  }

  /** The device that is open, for `tune`. `synchronize` is that of the backend, which knows of faults. */
  tuningDevice(description: DriverDescription, synchronize: () => Promise<void>): TuningDevice {
    const session = this.#session;
    return openTuningDevice({
      ...{ session, synchronize, variants: this.#options.variants ?? {} },
      isOpen: () => this.#open === session,
      log: (line) => this.#options.log?.(line),
      plan: (features) => this.plan(description, features),
      prepare: async (programs) => void (await this.prepare(programs, {}, "tune")),
      write: (destination, source) => this.#write(destination, 0, source),
      use: (entries) => this.#addTuning(entries),
    });
  }

  /** Compiles programs ahead of their use; see `WebGpuBackend.warmup`. */
  prepare(
    programs: ReadonlySet<Program>,
    options: WarmupOptions,
    operation = "warmup",
  ): Promise<WarmupReport> {
    const { pipelines, readback, guard } = this.#session;
    guard.enter(operation);
    return prepareAll(programs, pipelines, (work) => readback.guard(work), options);
  }

  /** Lets `enqueue` record kernels of its own; scratch that it asks for lasts until it returns. */
  withContext(enqueue: (context: KernelContext) => void): void {
    this.#record("withContext", enqueue);
  }

  #record(operation: string, enqueue: (context: OperationContext) => void, flops = 0): void {
    const { recorder, guard, profiling } = this.#session;
    const { profiler } = profiling;
    guard.enterCommands(operation);
    if (profiler === undefined) recorder.run(operation, enqueue, flops);
    else profiler.call(operation, () => recorder.run(operation, enqueue, flops));
  }

  get #session(): Session {
    if (this.#open === undefined) throw new BackendError("NOT_INITIALIZED", "webgpu: the device is not open");
    return this.#open;
  }

  /** Where the device comes from, or most probably does. */
  get #source(): GPU | undefined {
    return this.#gpu ?? globalThis.navigator?.gpu;
  }

  async #openDevice(): Promise<OpenDevice> {
    const { device, adapter } = this.#options;
    if (device !== undefined) return adoptDevice(device, this.#options, this.#source);
    if (adapter === undefined) this.#gpu = await this.#findGpu();
    return openDevice(await requestAdapter(this.#gpu, this.#options), this.#options, this.#source);
  }
}

/** Choosing costs nothing more where nothing was tuned. */
function useTuning({ opened, tuned }: Session): void {
  const features: { tuned?: TunedVariants | undefined } = opened.features;
  features.tuned = tuned.size === 0 ? undefined : tuned;
}

function makeSession(
  opened: OpenDevice,
  tuned: TunedTable,
  events: DriverEvents,
  maxBytes: number,
  poolBytes: number,
  immediateBytes: number,
  disableFeatures: readonly string[],
): Session {
  const report = (error: BackendError): void => {
    if (!session.closing) events.error(error);
  };
  const guard = new Guard(opened.device, report);
  const { device } = guard;
  const onOutOfMemory = (bytes: number, reason: string, operation: string): void =>
    report(
      new BackendError("OUT_OF_MEMORY", `${operation}: the device cannot hold ${bytes} bytes: ${reason}`, {
        operation,
      }),
    );
  const queue = new CommandQueue(device, {
    onFlush() {
      pool.afterSubmit();
      uploads.afterSubmit();
    },
  });
  const uploads = new Uploads(device.queue, () => device.queue.submit([]));
  const pipelines = new PipelineCache(device, {
    parameterLayout: queue.parameterLayout,
    immediateBytes,
    windowBytes: windowBytes(opened.features),
  });
  const pool = new MemoryPool({
    ...{ device, maxBytes, poolBytes, onOutOfMemory },
    currentBatch: () => queue.batch,
    currentOperation: () => guard.operation,
    onDestroy: (memory) => pipelines.forget(memory),
  });
  const recorder = new Recorder(opened.features, queue, pool, pipelines);
  const onUncaptured = (event: GPUUncapturedErrorEvent): void => {
    // Reported to the caller, and so not to the console.
    event.preventDefault();
    report(faultOf(event.error, []));
  };
  const session: Session = {
    ...{ opened, tuned, queue, pool, pipelines, recorder, uploads, guard },
    readback: new Readback({ device, queue, pool, recorder, onFault: report }),
    profiling: new Profiling({
      ...{ device, queue, disableFeatures },
      onStart: () => guard.enter("profile"),
      guard: (work) => session.readback.guard(work),
      pipelineCount: () => pipelines.size,
    }),
    foreign: new ForeignBuffers(maxBytes, (memory) => pipelines.forget(memory)),
    exported: new WeakMap(),
    // On a device of ours, for what the guard does not see.
    onUncaptured: opened.owned ? onUncaptured : undefined,
    lossWatch: {
      onLoss(reason) {
        session.readback.fail(new BackendError("DEVICE_LOST", reason));
        events.lost(reason);
      },
    },
    closing: false,
  };
  if (opened.owned) opened.device.addEventListener("uncapturederror", onUncaptured as EventListener);
  watchLoss(opened.device, session.lossWatch);
  return session;
}

/** Apart from all else, so that it keeps nothing alive but the watch. */
function watchLoss(device: GPUDevice, watch: LossWatch): void {
  device.lost.then(({ reason, message }) => watch.onLoss?.(`the device was lost (${reason}): ${message}`));
}
