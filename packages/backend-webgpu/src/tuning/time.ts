import { BackendError } from "@backplane/core";
import type { Profiling } from "../profile/index.js";

/** Seconds that the device takes for the kernels of `tune` among those that `enqueue` enqueues. */
export async function timeByTimestamps(
  profiling: Profiling,
  enqueue: () => void,
  synchronize: () => Promise<void>,
): Promise<number> {
  assertNoProfile(profiling);
  const profiler = profiling.start({ maxTraceEvents: 0 });
  try {
    enqueue();
    profiling.stop(profiler);
    await synchronize();
    const { rows, wallMicroseconds } = await profiler.finish(undefined);
    // What others enqueue meanwhile is measured, too.
    const own = rows.filter(({ operation }) => operation === "tune");
    const isWhole = own.every(({ dispatches, measured }) => measured === dispatches);
    return (isWhole ? own.reduce((sum, row) => sum + row.totalMicroseconds, 0) : wallMicroseconds) / 1e6;
  } finally {
    profiling.stop(profiler);
    profiler.destroy();
  }
}

/** Seconds until the device has done what `enqueue` enqueues. */
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
