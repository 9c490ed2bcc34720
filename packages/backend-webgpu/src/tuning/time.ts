import { BackendError } from "@backplane/core";
import type { Profiling } from "../profile/index.js";
import { startProfile } from "../profile/profiler.js";

/** Returns the device seconds for the kernels of `tune` among those that `enqueue` enqueues. */
export async function timeByTimestamps(
  profiling: Profiling,
  enqueue: () => void,
  synchronize: () => Promise<void>,
): Promise<number> {
  assertNoProfile(profiling);
  const profiler = startProfile(profiling, { maxTraceEvents: 0 });
  try {
    enqueue();
    profiling.stop(profiler);
    await synchronize();
    const { rows, wallMicroseconds } = await profiler.finish(undefined);
    // Kernels that others enqueue meanwhile are measured, too.
    const own = rows.filter(({ operation }) => operation === "tune");
    const isWhole = own.every(({ dispatches, measured }) => measured === dispatches);
    return (isWhole ? own.reduce((sum, row) => sum + row.totalMicroseconds, 0) : wallMicroseconds) / 1e6;
  } finally {
    profiling.stop(profiler);
    profiler.destroy();
  }
}

/** Returns the seconds until the device has done the commands of `enqueue`. */
export async function timeByWaiting(enqueue: () => void, synchronize: () => Promise<void>): Promise<number> {
  await synchronize();
  const began = performance.now();
  enqueue();
  await synchronize();
  return (performance.now() - began) / 1000;
}

/** Both would measure the work of both. */
export function assertNoProfile(profiling: Profiling): void {
  if (profiling.profiler === undefined) return;
  throw new BackendError("BUSY", "tune: a profile is being taken; allowed: one after the other", {
    operation: "tune",
  });
}
