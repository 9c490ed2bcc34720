import { BackendError } from "@backplane/core";
import type { CallEvent, ChromeTrace, DispatchEvent } from "./trace.js";

export interface ProfileOptions {
  /**
   * The most dispatches, and the most calls, that are kept one by one for `toChromeTrace`; the tables
   * count all. A whole number; default 100,000, which take some 20 MB of the host's memory.
   */
  readonly maxTraceEvents?: number;
}

/**
 * One kernel in the service of one operation. The time of a dispatch runs from its beginning, or from the end
 * of those before it if that is later, to its own end: devices take the first timestamp of a pass while the
 * one before still runs, or let passes run side by side. So no time counts twice.
 */
export interface ProfileRow {
  /** The method that was called, such as `gemm`; `copyHtoD` and the like if they need a kernel. */
  readonly operation: string;
  /** The program: operation, element type and tile, or other properties that it was generated for. */
  readonly kernel: string;
  readonly dispatches: number;
  /** Dispatches whose timestamps make sense. Devices may lose some: only these count in the times. */
  readonly measured: number;
  readonly totalMicroseconds: number;
  /** 0 if nothing was measured; the same holds for the following. */
  readonly meanMicroseconds: number;
  readonly minMicroseconds: number;
  readonly maxMicroseconds: number;
  /** Of `Profile.deviceMicroseconds`, from 0 to 1. */
  readonly share: number;
}

/**
 * The host time spent in the backend for one method: choosing kernels, recording commands, submitting, and
 * compiling new kernels. Argument checks come before and are not included.
 */
export interface ProfileCalls {
  readonly operation: string;
  readonly calls: number;
  readonly totalMicroseconds: number;
  readonly meanMicroseconds: number;
}

/** The measurements of `WebGpuBackend.profile`. Everything except `result` and the methods is plain data. */
export interface Profile<Result = unknown> {
  /** The result of the profiled function. */
  readonly result: Result;
  /** By operation and kernel, the longest first. */
  readonly rows: readonly ProfileRow[];
  /** By method, the longest first. */
  readonly calls: readonly ProfileCalls[];
  /** From the call of the function until the device had done all its work. */
  readonly wallMicroseconds: number;
  /** The sum over all dispatches: the time that the device was busy with kernels. */
  readonly deviceMicroseconds: number;
  /** The sum over all calls. */
  readonly hostMicroseconds: number;
  readonly dispatches: number;
  /** Batches of commands that went to the device. */
  readonly submits: number;
  readonly uploadedBytes: number;
  readonly downloadedBytes: number;
  /** Kernels that were compiled meanwhile: 0 after a complete `warmup`. */
  readonly compiledPipelines: number;
  /**
   * The differences between all timestamps are multiples of this; 0 if they are all the same. Browsers round
   * timestamps to about 100 us, and so does Dawn unless its toggle `timestamp_quantization` is disabled:
   * single dispatches then show as 0 or as one step, and only sums over many of them mean something.
   */
  readonly timestampStepMicroseconds: number;
  /** The tables as text. */
  toString(): string;
  /**
   * Everything on a time line, in the format of chrome://tracing and https://ui.perfetto.dev once it is
   * JSON. The clocks of host and device differ: the device's are shifted so that each batch begins
   * after it was submitted, and one of them at once.
   */
  toChromeTrace(): ChromeTrace;
}

const DEFAULT_TRACE_EVENTS = 100_000;

type MutableRow = {
  -readonly [Key in Exclude<keyof ProfileRow, "meanMicroseconds" | "share">]: ProfileRow[Key];
};

/** What measurements consist of. */
export interface Gathered
  extends Pick<Profile, "submits" | "uploadedBytes" | "downloadedBytes" | "timestampStepMicroseconds"> {
  readonly rows: readonly Omit<ProfileRow, "meanMicroseconds" | "share">[];
  readonly calls: readonly Omit<ProfileCalls, "meanMicroseconds">[];
  readonly dispatchEvents: readonly DispatchEvent[];
  readonly callEvents: readonly CallEvent[];
}

/** Gathers measurements. Keeps a bounded number of events, and one row for each kernel. */
export class Measurements {
  readonly dispatchEvents: DispatchEvent[] = [];
  readonly callEvents: CallEvent[] = [];
  submits = 0;
  uploadedBytes = 0;
  downloadedBytes = 0;
  readonly #maxEvents: number;
  readonly #rows = new Map<string, Map<string, MutableRow>>();
  readonly #calls = new Map<string, { calls: number; totalMicroseconds: number }>();
  /** The first timestamp, and the greatest common divisor of all distances from it, in nanoseconds. */
  #origin: bigint | undefined;
  #step = 0;
  /** When the last dispatch so far ended. */
  #lastEnd = 0n;

  constructor({ maxTraceEvents = DEFAULT_TRACE_EVENTS }: ProfileOptions) {
    if (!(Number.isSafeInteger(maxTraceEvents) && maxTraceEvents >= 0))
      throw new BackendError(
        "INVALID_ARGUMENT",
        `profile: maxTraceEvents is ${String(maxTraceEvents)}; allowed: whole numbers from 0`,
        { operation: "profile", argument: "maxTraceEvents" },
      );
    this.#maxEvents = maxTraceEvents;
  }

  /**
   * To be called in the order of submission. `begin` and `end` are nanoseconds of the device's clock,
   * `submitted` microseconds of the host's.
   */
  addDispatch(operation: string, kernel: string, begin: bigint, end: bigint, submitted: number): void {
    const row = this.#row(operation, kernel);
    row.dispatches++;
    // Timestamps that the device could not take are 0, and after a reset of its clock the order is off.
    if (begin === 0n || end < begin) return;
    this.#origin ??= begin;
    for (const timestamp of [begin, end])
      this.#step = commonDivisor(this.#step, Math.abs(Number(timestamp - this.#origin)));
    const begun = begin < this.#lastEnd ? this.#lastEnd : begin;
    if (end > this.#lastEnd) this.#lastEnd = end;
    const duration = Math.max(Number(end - begun), 0) / 1000;
    row.minMicroseconds = row.measured === 0 ? duration : Math.min(row.minMicroseconds, duration);
    row.maxMicroseconds = Math.max(row.maxMicroseconds, duration);
    row.totalMicroseconds += duration;
    row.measured++;
    if (this.dispatchEvents.length < this.#maxEvents)
      this.dispatchEvents.push({
        ...{ operation, kernel, begin: Number(begun - this.#origin) / 1000, duration, submitted },
      });
  }

  addCall(operation: string, begin: number, duration: number): void {
    const calls = entry(this.#calls, operation, () => ({ calls: 0, totalMicroseconds: 0 }));
    calls.calls++;
    calls.totalMicroseconds += duration;
    if (this.callEvents.length < this.#maxEvents) this.callEvents.push({ operation, begin, duration });
  }

  /** All that was gathered so far, for `finishedProfile`. */
  get gathered(): Gathered {
    return {
      rows: [...this.#rows.values()].flatMap((byKernel) => [...byKernel.values()]),
      calls: Array.from(this.#calls, ([operation, sums]) => ({ operation, ...sums })),
      timestampStepMicroseconds: this.#step / 1000,
      ...{ dispatchEvents: this.dispatchEvents, callEvents: this.callEvents },
      ...{ submits: this.submits, uploadedBytes: this.uploadedBytes, downloadedBytes: this.downloadedBytes },
    };
  }

  #row(operation: string, kernel: string): MutableRow {
    const byKernel = entry(this.#rows, operation, () => new Map<string, MutableRow>());
    return entry(byKernel, kernel, () => ({
      ...{ operation, kernel, dispatches: 0, measured: 0 },
      ...{ totalMicroseconds: 0, minMicroseconds: 0, maxMicroseconds: 0 },
    }));
  }
}

/** Returns the value of a map under a key; makes it if there is none. */
function entry<Value>(map: Map<string, Value>, key: string, make: () => Value): Value {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function commonDivisor(a: number, b: number): number {
  let [x, y] = [a, b];
  while (y > 0) [x, y] = [y, x % y];
  return x;
}
