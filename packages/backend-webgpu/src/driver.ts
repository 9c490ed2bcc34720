import {
  type BackendDriver,
  BackendError,
  type DriverDescription,
  type DriverEvents,
  type DriverKernels,
  type DriverRecording,
  type Numerics,
  type OwnKernel,
  type PoolStatistics,
  type Region,
} from "@backplane/core";
import { checkOptions, harmlessLog } from "./check-options.js";
import type { FindGpu, NativeBuffer } from "./device/index.js";
import {
  boundKernels,
  choiceLog,
  forcedDetails,
  type KernelSet,
  type OwnProgram,
  observeChoices,
  ownKernel,
  ownProgram,
  type RecordOperation,
} from "./kernels/index.js";
import type { WebGpuOptions } from "./options.js";
import type { Profiling } from "./profile/index.js";
import { PACKING_FEATURE, type Program } from "./program/index.js";
import type { DeviceMemory, ImportOptions, KernelContext, OperationContext } from "./runtime/index.js";
import {
  adoptDevice,
  CommandRecording,
  immediateBytes,
  type OpenDevice,
  openDevice,
  openingLine,
  packsExactly,
  requestAdapter,
  writeEdges,
} from "./runtime/index.js";
import { closeSession, largestAllocation, openSession, type Session, useTuning } from "./session.js";
import {
  mergeTuning,
  TUNING_FORMAT,
  TunableShapes,
  type TuningData,
  type TuningDeviceOptions,
  type TuningEntry,
  tableOf,
} from "./tuning/index.js";
import { packageVersion } from "./version.js";
import { type PlanMeans, prepareAll, type WarmupOptions, type WarmupReport } from "./warmup/index.js";

/** Fewer bytes are copied twice in less time than it takes to wait for the first copy. */
const LEAST_STAGED_BYTES = 1 << 20;

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

/** Backplane on a WebGPU device. `findGpu` returns `navigator.gpu` or its equivalent. */
export class WebGpuDriver implements BackendDriver<DeviceMemory> {
  readonly name = "webgpu";
  readonly kernels: DriverKernels<DeviceMemory>;
  readonly ownKernels: readonly OwnKernel[];
  readonly #findGpu: FindGpu;
  readonly #set: KernelSet;
  readonly #shapes: TunableShapes;
  readonly #options: WebGpuOptions;
  readonly #own: readonly OwnProgram[];
  #open: Session | undefined;
  /** The tuning found on the devices so far. */
  #found: TuningData[] = [];
  /** Dawn aborts the process if this is collected while a device lives. */
  #gpu: GPU | undefined;

  constructor(findGpu: FindGpu, kernels: KernelSet, options: WebGpuOptions = {}) {
    checkOptions(options, kernels);
    this.#findGpu = findGpu;
    this.#set = kernels;
    this.#shapes = new TunableShapes(kernels);
    this.#options = harmlessLog(options);
    const record: RecordOperation = (operation, enqueue, flops) => this.#record(operation, enqueue, flops);
    this.kernels = boundKernels(kernels, options.variants ?? {}, record);
    this.#own = (options.kernels ?? []).map(ownProgram);
    this.ownKernels = this.#own.map((own) => ownKernel(own, record));
  }

  async open(events: DriverEvents): Promise<DriverDescription> {
    const opened = await this.#openDevice();
    const { description, features, place } = opened;
    const { log, variants, disableFeatures = [] } = this.#options;
    await this.#loadKernels(opened);
    if (log !== undefined) {
      log(openingLine(opened));
      observeChoices(features, choiceLog(log));
    }
    const tuned = tableOf(place, this.#options, this.#found, this.#shapes);
    const dialect = {
      immediateBytes: immediateBytes(opened.device, this.#source, disableFeatures),
      packsExactly: !disableFeatures.includes(PACKING_FEATURE) && (await packsExactly(opened.device)),
    };
    this.#open = openSession(opened, tuned, events, dialect, this.#options);
    const details = {
      ...{ ...description.details, ...forcedDetails(variants), ...this.#set.detailsOf(features) },
      halves: dialect.packsExactly ? "packed by the device" : "packed by integer arithmetic",
    };
    const limits = { maxAllocationBytes: largestAllocation(opened) };
    const { transformedConvolutions = "never" } = this.#options;
    return {
      ...{ device: { ...description, details }, limits, accuracy: this.#set.accuracy },
      numerics: { ...numerics, transformedConvolutions },
    };
  }

  async #loadKernels({ device, features, owned }: OpenDevice): Promise<void> {
    try {
      await this.#set.load(features);
    } catch (error) {
      if (owned) device.destroy();
      throw error;
    }
  }

  async close(): Promise<void> {
    const session = this.#session;
    this.#open = undefined;
    await closeSession(session);
  }

  async synchronize(): Promise<void> {
    const { queue, opened, readback, guard } = this.#session;
    if (queue.isHolding) await readback.guard(queue.released());
    const submitted = queue.flush();
    await readback.guard(opened.device.queue.onSubmittedWorkDone());
    queue.finished(submitted);
    // Callers that waited must learn what the device refused.
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

  /** Short and odd ones take the usual way. */
  async upload(
    destination: DeviceMemory,
    byteOffset: number,
    source: Uint8Array<ArrayBufferLike>,
  ): Promise<void> {
    const { stagedUploads, readback, guard, profiling } = this.#session;
    const isWhole = byteOffset % 4 === 0 && source.byteLength % 4 === 0;
    if (!isWhole || source.byteLength < LEAST_STAGED_BYTES || profiling.profiler !== undefined) {
      this.write(destination, byteOffset, source);
      return;
    }
    guard.enter("copyHtoD");
    destination.overwrite(byteOffset, source.byteLength);
    destination.beforeWrite();
    await stagedUploads.write(destination, byteOffset, source);
    await readback.guard(guard.settled());
  }

  #write(destination: DeviceMemory, byteOffset: number, source: Uint8Array<ArrayBufferLike>): void {
    const { recorder, uploads, queue, guard } = this.#session;
    const { start, end } = recorder.run("copyHtoD", () =>
      this.#prepareWrite(destination, byteOffset, source),
    );
    const inner = source.subarray(start, end);
    const write = (bytes: Uint8Array<ArrayBufferLike>) =>
      uploads.write(destination.buffer, byteOffset + start, bytes);
    if (!queue.isHolding || destination.batch !== queue.batch) write(inner);
    else {
      const copy = inner.slice();
      queue.holdWrite(copy.byteLength, () => guard.within("copyHtoD", () => write(copy)));
    }
  }

  /** Records the commands that must precede a write, and the words that it covers in part. Returns the rest. */
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
    if (destination.stale) recorder.touch(destination);
    if (destination.batch === queue.batch) queue.flush();
    return writeEdges(recorder, region, source);
  }

  async read(
    destination: Uint8Array<ArrayBufferLike>,
    source: DeviceMemory,
    byteOffset: number,
  ): Promise<void> {
    const { recorder, readback, guard, profiling } = this.#session;
    const { profiler } = profiling;
    guard.enter("copyDtoH");
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
    const { queue, pool, readback, stagedUploads, foreign, profiling } = this.#session;
    const holders = [queue, pool, readback, stagedUploads, foreign, profiling];
    return holders.reduce((sum, holder) => sum + holder.reservedBytes, 0);
  }

  /** Buffers, and staging buffers. */
  pool(): PoolStatistics {
    const { pool, readback, stagedUploads } = this.#session;
    const { statistics } = pool;
    const staging = readback.freeBytes + stagedUploads.freeBytes;
    return { ...statistics, pooledBytes: statistics.pooledBytes + staging };
  }

  trim(): void {
    const { pool, readback, stagedUploads, queue } = this.#session;
    // Commands that are not submitted may still use free buffers.
    queue.flush();
    pool.trim(0);
    readback.trim(0);
    stagedUploads.trim();
  }

  flush(): void {
    const { queue } = this.#session;
    queue.release();
    queue.flush();
  }

  /** The GPUDevice, or the GPUBuffer of an allocation. All work enqueued so far has been submitted. */
  native(memory?: DeviceMemory): unknown {
    const { recorder, queue, opened, guard, exported } = this.#session;
    guard.enter("native");
    if (memory !== undefined) {
      recorder.run("native", () => recorder.touch(memory));
      // The caller may write to it.
      memory.beforeWrite();
    }
    queue.neverHold();
    queue.flush();
    if (memory === undefined) return opened.device;
    exported.set(memory.buffer, memory);
    return memory.buffer;
  }

  /** Memory in a buffer that someone else made; see `WebGpuBackend.importBuffer`. Ends with `free`. */
  importBuffer(buffer: NativeBuffer, options: ImportOptions): DeviceMemory {
    const { foreign, exported, queue } = this.#session;
    queue.neverHold();
    return foreign.take(buffer, options, (candidate) => exported.has(candidate));
  }

  /** The bytes of the allocation whose buffer `native` has given out. */
  exportedBytes(buffer: NativeBuffer): number {
    return this.#session.exported.get(buffer)!.bytes;
  }

  /** The profiling of the open device. */
  get profiling(): Profiling {
    return this.#session.profiling;
  }

  /** What a driver needs that only records the programs that calls would need. */
  get planMeans(): PlanMeans {
    const { features } = this.#session.opened;
    return { features, kernels: this.#set, variants: this.#options.variants ?? {}, own: this.#own };
  }

  /** The tuning for the open device. */
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

  /** What `tune` needs of the open device. `synchronize` is that of the backend, which knows of faults. */
  tuningMeans(synchronize: () => Promise<void>): Omit<TuningDeviceOptions, "plan"> {
    const session = this.#session;
    return {
      ...{ session, synchronize, variants: this.#options.variants ?? {} },
      ...{ kernels: this.#set, shapes: this.#shapes },
      isOpen: () => this.#open === session,
      log: (line) => this.#options.log?.(line),
      prepare: async (programs) => void (await this.prepare(programs, {}, "tune")),
      write: (destination, source) => this.#write(destination, 0, source),
      use: (entries) => this.#addTuning(entries),
    };
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

  record(): DriverRecording {
    const session = this.#session;
    const { opened, queue, pool, pipelines, recorder, profiling } = session;
    const recording = new CommandRecording(opened.features, { queue, pool, pipelines }, recorder);
    const plan = (place: number, enqueue: () => void): void => {
      session.capturing = recording.recorder;
      try {
        recording.plan(place, enqueue);
      } finally {
        session.capturing = undefined;
      }
    };
    return {
      plan,
      run() {
        recording.planRefused(plan);
        const { profiler } = profiling;
        if (profiler === undefined) recording.run();
        else profiler.call("Recording.run", () => recording.run());
      },
      dispose: () => recording.dispose(),
    };
  }

  #record(operation: string, enqueue: (context: OperationContext) => void, flops = 0): void {
    const { recorder, guard, profiling, capturing } = this.#session;
    const { profiler } = profiling;
    guard.enter(operation);
    if (capturing !== undefined) capturing.run(operation, enqueue, flops);
    else if (profiler === undefined) recorder.run(operation, enqueue, flops);
    else profiler.call(operation, () => recorder.run(operation, enqueue, flops));
  }

  get #session(): Session {
    if (this.#open === undefined) throw new BackendError("NOT_INITIALIZED", "webgpu: the device is not open");
    return this.#open;
  }

  /** The source of the device, or the most probable one. */
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
