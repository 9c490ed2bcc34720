/** A dispatch on the time line of the device, in microseconds from the first one. */
export interface DispatchEvent {
  readonly operation: string;
  readonly kernel: string;
  readonly begin: number;
  readonly duration: number;
  /** When its batch was submitted, on the time line of the host. */
  readonly submitted: number;
}

/** A call on the time line of the host, in microseconds from the beginning of the profile. */
export interface CallEvent {
  readonly operation: string;
  readonly begin: number;
  readonly duration: number;
}

/** The data that chrome://tracing and Perfetto load as JSON ("Trace Event Format", by Google). */
export interface ChromeTrace {
  readonly displayTimeUnit: "ns";
  readonly traceEvents: readonly ChromeTraceEvent[];
}

/** A stretch of time on a track (`ph` is "X"), or the name of a track ("M"). Times are microseconds. */
export interface ChromeTraceEvent {
  readonly name: string;
  readonly cat?: string;
  readonly ph: "X" | "M";
  readonly ts?: number;
  readonly dur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly args?: Readonly<Record<string, string>>;
}

const PROCESS = 1;
const HOST_TRACK = 1;
const DEVICE_TRACK = 2;

/** Calls on one track, dispatches on another. */
export function chromeTrace(dispatches: readonly DispatchEvent[], calls: readonly CallEvent[]): ChromeTrace {
  const shift = clockShift(dispatches);
  const onHost = calls.map(({ operation, begin, duration }) =>
    stretch(HOST_TRACK, operation, "host", begin, duration),
  );
  const onDevice = dispatches.map(({ operation, kernel, begin, duration }) =>
    stretch(DEVICE_TRACK, kernel, operation, begin + shift, duration),
  );
  const names = [
    label("process_name", 0, "Backplane on WebGPU"),
    label("thread_name", HOST_TRACK, "host"),
    label("thread_name", DEVICE_TRACK, "device"),
  ];
  return { displayTimeUnit: "ns", traceEvents: [...names, ...onHost, ...onDevice] };
}

function stretch(tid: number, name: string, cat: string, ts: number, dur: number): ChromeTraceEvent {
  return { name, cat, ph: "X", ts, dur, pid: PROCESS, tid };
}

/** Returns the least shift of device times for which nothing begins before it was submitted. */
function clockShift(dispatches: readonly DispatchEvent[]): number {
  let shift = Number.NEGATIVE_INFINITY;
  for (const { begin, submitted } of dispatches) shift = Math.max(shift, submitted - begin);
  return shift;
}

function label(what: "process_name" | "thread_name", tid: number, name: string): ChromeTraceEvent {
  return { name: what, ph: "M", pid: PROCESS, tid, args: { name } };
}
