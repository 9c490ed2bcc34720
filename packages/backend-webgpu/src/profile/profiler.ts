import { BackendError } from "@backplane/core";
import type { Program } from "../program/index.js";
import type { DispatchObserver } from "../runtime/index.js";
import { batchLimits, TIMESTAMP_FEATURE } from "../runtime/index.js";
import { finishedProfile } from "./finished.js";
import { Measurements, type Profile, type ProfileOptions } from "./profile.js";
import type { Profiling, ProfilingOptions } from "./profiling.js";

const RESOLVE_USAGE = 0x200 | 0x04; // QUERY_RESOLVE | COPY_SRC
const STAGING_USAGE = 0x01 | 0x08; // MAP_READ | COPY_DST
const MAP_READ = 0x1;

/** Two timestamps of 64 bits. */
const DISPATCH_BYTES = 16;
/** Bytes of the timestamps that are read back at once: those of 64 full batches. */
const STAGING_BYTES = 64 * batchLimits.dispatches * DISPATCH_BYTES;

/** All that is done from here on is measured, until `profiling.stop`. */
export function startProfile(profiling: Profiling, options: ProfileOptions): Profiler {
  const operation = "profile";
  if (!profiling.isPossible)
    throw new BackendError(
      "UNSUPPORTED",
      `profile: the device was opened without the feature ${TIMESTAMP_FEATURE}, which the adapter lacks, ` +
        "or the option disableFeatures has, or the device that was given does not have",
      { operation },
    );
  if (profiling.profiler !== undefined)
    throw new BackendError("BUSY", "profile: another profile is being taken; allowed: one at a time", {
      operation,
    });
  profiling.options.onStart();
  const profiler = new Profiler(profiling.options, options);
  profiling.options.queue.observe(profiler);
  profiling.profiler = profiler;
  return profiler;
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
