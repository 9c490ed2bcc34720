import type { WebGpuBackend, WebGpuOptions } from "@backplane/backend-webgpu";
import type { ComputeBackend, DeviceHandle } from "@backplane/core";
import { all } from "#src/all.js";
import { makeProvider } from "#src/backend.js";
import type { TuningMeans } from "#src/tuning/tune.js";
import { findDawn } from "./support.js";

/** So little that a handful of kernels can run: they take long to compile here. */
export const few: WebGpuOptions = {
  limits: { maxComputeInvocationsPerWorkgroup: 64, maxComputeWorkgroupStorageSize: 8192 },
};

/** Seconds by variant, whatever the device does; others take a second. No time is spent on warming up. */
export function rigged(seconds: Readonly<Record<string, number>>, timed: string[] = []): TuningMeans {
  let now = 0;
  return {
    now: () => (now += 1000),
    async measure({ operation, variant }) {
      timed.push(`${operation} ${variant}`);
      return seconds[variant] ?? 1;
    },
  };
}

/** Of `product`. */
export const [m, n, k]: readonly [number, number, number] = [24, 20, 16];

export function product(backend: ComputeBackend, more: { dtype?: "f16"; beta?: number } = {}): DeviceHandle {
  const [a, b, c] = [backend.alloc(4 * m * k), backend.alloc(4 * k * n), backend.alloc(4 * m * n)];
  backend.gemm({ m, n, k, a, b, c, ...more });
  return c;
}

/** Takes one of two kernels, both quick to compile: by default, and on every device, that of workgroups. */
export function sum(backend: ComputeBackend): DeviceHandle {
  const [input, output] = [backend.alloc(4 * 30 * 3), backend.alloc(4 * 30)];
  backend.reduce({ kind: "sum", shape: [30, 3], axes: [1], input, output });
  return output;
}

/** A backend whose clock and times are replaced, with what it logs; disposed of after each test. */
export function withTuned(): Tuned {
  const tuned: Tuned = {
    lines: [],
    async open(options, means) {
      tuned.lines = [];
      const log = (line: string): number => tuned.lines.push(line);
      tuned.backend = makeProvider(findDawn, all, { log, ...options }, means).create();
      await tuned.backend.init();
      return tuned.backend;
    },
    async kernelsOf(work) {
      const { rows } = await tuned.backend!.profile(() => void work(tuned.backend!));
      const names = rows.map(({ kernel }) => kernel);
      return names.filter((name) => !name.startsWith("fill")).sort();
    },
  };
  afterEach(() => tuned.backend?.dispose());
  return tuned;
}

export interface Tuned {
  backend?: WebGpuBackend;
  lines: string[];
  open(options: WebGpuOptions, means: TuningMeans): Promise<WebGpuBackend>;
  /** The kernels that some work runs. */
  kernelsOf(work: (backend: ComputeBackend) => unknown): Promise<string[]>;
}
