import { type ChromeTrace, type ChromeTraceEvent, isWebGpuBackend } from "@backplane/backend-webgpu";
import {
  BackendError,
  type DeviceHandle,
  operationNames,
  type Recording,
  type RunChanges,
  type SwitchableBackend,
  type Vary,
} from "@backplane/core";
import type { Watch } from "./writer.js";

/** Where the time of some work went. */
export interface WorkProfile {
  readonly text: string;
  /** For chrome://tracing and https://ui.perfetto.dev. */
  readonly trace: ChromeTrace;
}

/** Measures some work on a backend. Whoever wants to be measured works with `backend`. */
export interface Profiler {
  readonly backend: SwitchableBackend;
  /** Throws `UNSUPPORTED` if the device cannot be measured. */
  measure(work: (watch: Watch) => Promise<void>): Promise<WorkProfile>;
}

/** Returns the profiler for the backend in use, which must stay in use. */
export function profilerFor(backend: SwitchableBackend): Profiler {
  return isWebGpuBackend(backend.inner) ? gpuProfiler(backend) : new OperationProfiler(backend);
}

/** Tracks of the time line; the first two are those of the WebGPU backend's own. */
const tracks = { host: 1, device: 2, waits: 3 } as const;
const PROCESS = 1;

/** A stretch of time, in microseconds from the beginning. */
function stretch(track: keyof typeof tracks, name: string, ts: number, dur: number): ChromeTraceEvent {
  return { name, cat: track, ph: "X", ts, dur, pid: PROCESS, tid: tracks[track] };
}

function trackName(track: keyof typeof tracks): ChromeTraceEvent {
  return { name: "thread_name", ph: "M", pid: PROCESS, tid: tracks[track], args: { name: track } };
}

const microsecondsSince = (began: number, time: number): number => 1000 * (time - began);

/** The waits of the host, in microseconds from the beginning. */
class Waits implements Watch {
  readonly began: number = performance.now();
  readonly events: ChromeTraceEvent[] = [];

  waited(begin: number, end: number): void {
    const ts = microsecondsSince(this.began, begin);
    this.events.push(stretch("waits", "token", ts, 1000 * (end - begin)));
  }

  get microseconds(): number {
    return this.events.reduce((sum, { dur }) => sum + dur!, 0);
  }
}

/** The kernels by the timestamps of the device. */
function gpuProfiler(backend: SwitchableBackend): Profiler {
  return {
    backend,
    async measure(work) {
      const { inner } = backend;
      if (!isWebGpuBackend(inner))
        throw new BackendError("UNSUPPORTED", "profile: another backend is in use");
      const waits = new Waits();
      const profile = await inner.profile(() => work(waits));
      const { displayTimeUnit, traceEvents } = profile.toChromeTrace();
      return {
        text: `${profile}\n${waits.microseconds.toFixed(1)} us waiting for tokens\n`,
        trace: { displayTimeUnit, traceEvents: [...traceEvents, trackName("waits"), ...waits.events] },
      };
    },
  };
}

/** Calls that work on the device, besides the operations. */
const memoryCalls = ["copyDtoD", "fill"];

interface Sums {
  calls: number;
  host: number;
  device: number;
}

/**
 * Measures backends without timestamps: waits for the device after every operation, which therefore run one at a time,
 * and recordings are made anew each time. The host's part of an operation is its call, and the device's the wait.
 */
class OperationProfiler implements Profiler {
  readonly backend: SwitchableBackend;
  readonly #inner: SwitchableBackend;
  #sums = new Map<string, Sums>();
  #events: ChromeTraceEvent[] = [];
  /** Memory that is read to wait for the device; undefined while nothing is measured. */
  #probe: DeviceHandle | undefined;
  #began = 0;

  constructor(inner: SwitchableBackend) {
    this.#inner = inner;
    const measured = new Set<string | symbol>([...operationNames, ...memoryCalls]);
    this.backend = new Proxy(inner, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target);
        if (typeof value !== "function") return value;
        if (name === "record")
          return (body: (vary: Vary<object>) => void, values: object) => replay(body, values);
        if (!measured.has(name)) return value.bind(target);
        return (...args: unknown[]) => this.#call(String(name), () => value.apply(target, args));
      },
    });
  }

  async measure(work: (watch: Watch) => Promise<void>): Promise<WorkProfile> {
    if (!this.#inner.capabilities.synchronousReads)
      throw new BackendError("UNSUPPORTED", "profile: this thread cannot wait for the device");
    const waits = new Waits();
    this.#began = waits.began;
    this.#sums = new Map();
    this.#events = [];
    const probe = this.#inner.alloc(1);
    this.#probe = probe;
    try {
      await work(waits);
    } finally {
      this.#probe = undefined;
      this.#inner.free(probe);
    }
    const wall = microsecondsSince(this.#began, performance.now());
    const names = [trackName("host"), trackName("device"), trackName("waits")];
    return {
      text: this.#text(wall, waits.microseconds),
      trace: { displayTimeUnit: "ns", traceEvents: [...names, ...this.#events, ...waits.events] },
    };
  }

  #call(operation: string, call: () => unknown): unknown {
    const probe = this.#probe;
    if (probe === undefined) return call();
    const begin = performance.now();
    const result = call();
    const called = performance.now();
    this.#inner.copyDtoHSync(new Uint8Array(1), probe);
    const end = performance.now();
    const [host, device] = [1000 * (called - begin), 1000 * (end - called)];
    const sums = this.#sums.get(operation) ?? { calls: 0, host: 0, device: 0 };
    this.#sums.set(operation, {
      ...{ calls: sums.calls + 1, host: sums.host + host, device: sums.device + device },
    });
    this.#events.push(
      stretch("host", operation, microsecondsSince(this.#began, begin), host),
      stretch("device", operation, microsecondsSince(this.#began, called), device),
    );
    return result;
  }

  #text(wall: number, waiting: number): string {
    const rows = [...this.#sums].sort(([, a], [, b]) => b.host + b.device - a.host - a.device);
    const total = (part: "host" | "device") => rows.reduce((sum, [, sums]) => sum + sums[part], 0);
    const columns = (cells: readonly string[]) =>
      cells.map((cell, i) => (i === 0 ? cell.padEnd(14) : cell.padStart(13))).join("");
    const lines = rows.map(([operation, { calls, host, device }]) =>
      columns([operation, String(calls), host.toFixed(1), device.toFixed(1), (device / calls).toFixed(1)]),
    );
    return `${[
      columns(["operation", "calls", "host us", "device us", "mean"]),
      ...lines,
      "",
      `${total("device").toFixed(1)} us on the device, ${total("host").toFixed(1)} us on the host, ` +
        `${waiting.toFixed(1)} us waiting for tokens, ${wall.toFixed(1)} us from beginning to end`,
      "The operations ran one at a time to be measured, each with some microseconds of waiting for its end.",
    ].join("\n")}\n`;
  }
}

/** A recording that makes its calls anew at each run. */
function replay<Values extends object>(
  body: (vary: Vary<Values>) => void,
  values: Values,
): Recording<Values> {
  return {
    run: (changes: RunChanges<Values> = {}) => body((part) => part({ ...values, ...changes.values })),
    dispose() {},
    [Symbol.dispose]() {},
  };
}
