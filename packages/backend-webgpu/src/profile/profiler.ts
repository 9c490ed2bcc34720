import { BackendError } from "@backplane/core";
import type { Program } from "../program/index.js";
import type { CommandQueue, DispatchObserver } from "../runtime/index.js";
import { batchLimits, loaded, measuringFeatures, TIMESTAMP_FEATURE } from "../runtime/index.js";
import { Measurements, type Profile, type ProfileOptions } from "./profile.js";

const RESOLVE_USAGE = 0x200 | 0x04; // QUERY_RESOLVE | COPY_SRC
const STAGING_USAGE = 0x01 | 0x08; // MAP_READ | COPY_DST
const MAP_READ = 0x1;

/** Two timestamps of 64 bits. */
const DISPATCH_BYTES = 16;
/** Bytes of the timestamps that are read back at once: those of 64 full batches. */
const STAGING_BYTES = 64 * batchLimits.dispatches * DISPATCH_BYTES;

export interface ProfilingOptions {
  /** Must have the features that `measuringFeatures` names. */
  readonly device: GPUDevice;
  readonly disableFeatures: readonly string[];
  readonly queue: Pick<CommandQueue, "observe">;
  /** A profile begins. */
  onStart(): void;
  /** Settles as the promise does, and also when the device is lost or closed. */
  guard(work: Promise<unknown>): Promise<void>;
  /** How many pipelines exist. */
  pipelineCount(): number;
}

/** Measures a device, one profile at a time. */
export class Profiling {
  readonly #options: ProfilingOptions;
  #profiler: Profiler | undefined;

  constructor(options: ProfilingOptions) {
    this.#options = options;
  }

  /** The profiler that measures now. */
  get profiler(): Profiler | undefined {
    return this.#profiler;
  }

  /** Whether the device can measure. */
  get isPossible(): boolean {
    const { device, disableFeatures } = this.#options;
    return measuringFeatures(device, disableFeatures).length > 0;
  }

  /** Bytes of device memory that the measuring takes. */
  get reservedBytes(): number {
    return this.#profiler?.reservedBytes ?? 0;
  }

  /** All that is done from here on is measured, until `stop`. */
  start(options: ProfileOptions): Profiler {
    const operation = "profile";
    const { queue } = this.#options;
    if (!this.isPossible)
      throw new BackendError(
        "UNSUPPORTED",
        `profile: the device was opened without the feature ${TIMESTAMP_FEATURE}, which the adapter lacks, ` +
          "or the option disableFeatures has, or the device that was given does not have",
        { operation },
      );
    if (this.#profiler !== undefined)
      throw new BackendError("BUSY", "profile: another profile is being taken; allowed: one at a time", {
        operation,
      });
    this.#options.onStart();
    const profiler = new Profiler(this.#options, options);
    queue.observe(profiler);
    this.#profiler = profiler;
    return profiler;
  }

  /** Submits the commands that are still to be measured. Returns false if the device was closed meanwhile. */
  stop(profiler: Profiler): boolean {
    if (this.#profiler !== profiler) return false;
    this.#profiler = undefined;
    this.#options.queue.observe(undefined);
    return true;
  }

  /** Called with the end of the device: submits nothing any more. */
  destroy(): void {
    this.#profiler?.destroy();
    this.#profiler = undefined;
  }
}

/** The timestamps of some batches on their way to the host, and their dispatches. */
interface Shipment {
  readonly staging: GPUBuffer;
  readonly dispatches: Dispatch[];
}

interface Dispatch {
  readonly operation: string;
  readonly program: Program;
  /** Microseconds since the beginning. */
  submitted: number;
}

/**
 * Measures one profile. The queries of a batch are resolved by the batch itself, so that one set serves
 * them all; the timestamps gather in staging buffers, which come back while the host waits for
 * anything. Work that never waits takes another staging buffer for each 4,096 dispatches.
 */
export class Profiler implements DispatchObserver {
  readonly #options: ProfilingOptions;
  readonly #measurements: Measurements;
  readonly #queries: GPUQuerySet;
  readonly #resolved: GPUBuffer;
  readonly #began = performance.now();
  readonly #pipelinesBefore: number;
  /** The dispatches of the batch being recorded. */
  #batch: Dispatch[] = [];
  #shipment: Shipment | undefined;
  /** Resolves when all that was shipped has arrived. */
  #arrival: Promise<void> = Promise.resolve();
  readonly #staging = new Set<GPUBuffer>();
  #freeStaging: GPUBuffer[] = [];

  constructor(options: ProfilingOptions, profileOptions: ProfileOptions) {
    this.#options = options;
    this.#measurements = new Measurements(profileOptions);
    this.#pipelinesBefore = options.pipelineCount();
    const { device } = options;
    const { dispatches } = batchLimits;
    this.#queries = device.createQuerySet({ label: "profile", type: "timestamp", count: 2 * dispatches });
    this.#resolved = device.createBuffer({
      ...{ label: "profile", size: dispatches * DISPATCH_BYTES, usage: RESOLVE_USAGE },
    });
  }

  /** Bytes of device memory that the measuring takes. */
  get reservedBytes(): number {
    return this.#resolved.size + this.#staging.size * STAGING_BYTES;
  }

  /** Runs something that the host does for a call. */
  call<Result>(operation: string, body: () => Result): Result {
    const begin = this.#now();
    try {
      return body();
    } finally {
      this.#measurements.addCall(operation, begin, this.#now() - begin);
    }
  }

  uploaded(bytes: number): void {
    this.#measurements.uploadedBytes += bytes;
  }

  downloaded(bytes: number): void {
    this.#measurements.downloadedBytes += bytes;
  }

  timestampWrites(operation: string, program: Program): GPUComputePassTimestampWrites {
    const first = 2 * this.#batch.length;
    this.#batch.push({ operation, program, submitted: 0 });
    return {
      querySet: this.#queries,
      beginningOfPassWriteIndex: first,
      endOfPassWriteIndex: first + 1,
    };
  }

  beforeSubmit(encoder: GPUCommandEncoder): void {
    const count = this.#batch.length;
    if (count === 0) return;
    this.#shipment ??= { staging: this.#takeStaging(), dispatches: [] };
    const { staging, dispatches } = this.#shipment;
    const offset = dispatches.length * DISPATCH_BYTES;
    encoder.resolveQuerySet(this.#queries, 0, 2 * count, this.#resolved, 0);
    encoder.copyBufferToBuffer(this.#resolved, 0, staging, offset, count * DISPATCH_BYTES);
    const submitted = this.#now();
    for (const dispatch of this.#batch) {
      dispatch.submitted = submitted;
      dispatches.push(dispatch);
    }
    this.#batch = [];
  }

  afterSubmit(): void {
    this.#measurements.submits++;
    const used = (this.#shipment?.dispatches.length ?? 0) * DISPATCH_BYTES;
    if (used + batchLimits.dispatches * DISPATCH_BYTES > STAGING_BYTES) this.#ship();
  }

  /** Returns the measurements when all of them have arrived. Everything must be submitted and done by then. */
  async finish<Result>(result: Result): Promise<Profile<Result>> {
    const wallMicroseconds = this.#now();
    const { pipelineCount } = this.#options;
    const compiled = pipelineCount() - this.#pipelinesBefore;
    this.#ship();
    await this.#arrival;
    // Most programs take no profile, and load this when one is finished.
    const { finishedProfile } = await loaded("profile", import("./finished.js"));
    return finishedProfile(this.#measurements.gathered, result, wallMicroseconds, compiled);
  }

  /** Destroys its objects on the device; idempotent. Nothing recorded may be left unsubmitted. */
  destroy(): void {
    this.#queries.destroy();
    this.#resolved.destroy();
    for (const staging of this.#staging) staging.destroy();
  }

  #now(): number {
    return 1000 * (performance.now() - this.#began);
  }

  #takeStaging(): GPUBuffer {
    const free = this.#freeStaging.pop();
    if (free !== undefined) return free;
    const { device } = this.#options;
    const made = device.createBuffer({ label: "profile", size: STAGING_BYTES, usage: STAGING_USAGE });
    this.#staging.add(made);
    return made;
  }

  #ship(): void {
    const shipment = this.#shipment;
    if (shipment === undefined) return;
    this.#shipment = undefined;
    this.#arrival = this.#receive(shipment, this.#arrival);
    // If the profile fails for another reason, nobody waits for this.
    this.#arrival.catch(() => {});
  }

  async #receive({ staging, dispatches }: Shipment, previous: Promise<void>): Promise<void> {
    const bytes = dispatches.length * DISPATCH_BYTES;
    await this.#options.guard(staging.mapAsync(MAP_READ, 0, bytes));
    await previous;
    const timestamps = new BigUint64Array(staging.getMappedRange(0, bytes));
    for (const [i, { operation, program, submitted }] of dispatches.entries())
      this.#measurements.addDispatch(
        ...([operation, program.name, timestamps[2 * i]!, timestamps[2 * i + 1]!, submitted] as const),
      );
    staging.unmap();
    this.#freeStaging.push(staging);
  }
}
