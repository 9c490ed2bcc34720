import type { Gathered, Profile } from "./profile.js";
import { chromeTrace } from "./trace.js";

/** Returns all measurements, together with the result of the profiled function. */
export function finishedProfile<Result>(
  { rows, calls, dispatchEvents, callEvents, ...counts }: Gathered,
  result: Result,
  wallMicroseconds: number,
  compiledPipelines: number,
): Profile<Result> {
  const deviceMicroseconds = total(rows);
  const finished = {
    result,
    rows: rows.toSorted(longestFirst).map((row) => ({
      ...row,
      meanMicroseconds: row.totalMicroseconds / Math.max(row.measured, 1),
      share: deviceMicroseconds === 0 ? 0 : row.totalMicroseconds / deviceMicroseconds,
    })),
    calls: calls
      .toSorted(longestFirst)
      .map((sums) => ({ ...sums, meanMicroseconds: sums.totalMicroseconds / sums.calls })),
    ...{ wallMicroseconds, deviceMicroseconds, hostMicroseconds: total(calls) },
    dispatches: rows.reduce((sum, { dispatches }) => sum + dispatches, 0),
    compiledPipelines,
    ...counts,
  };
  return {
    ...finished,
    toString: () => profileText(finished),
    toChromeTrace: () => chromeTrace(dispatchEvents, callEvents),
  };
}

interface Timed {
  readonly totalMicroseconds: number;
}

function longestFirst(a: Timed, b: Timed): number {
  return b.totalMicroseconds - a.totalMicroseconds;
}

function total(rows: readonly Timed[]): number {
  return rows.reduce((sum, { totalMicroseconds }) => sum + totalMicroseconds, 0);
}

/** From here on, several dispatches look like one. */
const COARSE_MICROSECONDS = 10;

function profileText(profile: Omit<Profile, "toString" | "toChromeTrace">): string {
  const microseconds = (value: number): string => value.toFixed(1);
  const kernels = profile.rows.map((row) => [
    ...[row.operation, row.kernel, String(row.dispatches)],
    ...[row.totalMicroseconds, row.meanMicroseconds, row.minMicroseconds, row.maxMicroseconds].map(
      microseconds,
    ),
    `${(100 * row.share).toFixed(1)}%`,
  ]);
  const calls = profile.calls.map(({ operation, calls: count, totalMicroseconds, meanMicroseconds }) => [
    ...[operation, String(count), microseconds(totalMicroseconds), microseconds(meanMicroseconds)],
  ]);
  const unmeasured = profile.rows.reduce((sum, { dispatches, measured }) => sum + dispatches - measured, 0);
  const step = profile.timestampStepMicroseconds;
  return [
    ...aligned(
      ["on the device", "kernel", "dispatches", "total us", "mean us", "min us", "max us", "share"],
      2,
      kernels,
    ),
    "",
    ...aligned(["on the host", "calls", "total us", "mean us"], 1, calls),
    "",
    `dispatches: ${profile.dispatches}, submits: ${profile.submits}, kernels compiled: ${profile.compiledPipelines}`,
    `${microseconds(profile.deviceMicroseconds)} us on the device, ${microseconds(profile.hostMicroseconds)} us on the host, ` +
      `${microseconds(profile.wallMicroseconds)} us from beginning to end`,
    `${profile.uploadedBytes} bytes to the device, ${profile.downloadedBytes} bytes from it`,
    ...(unmeasured > 0 ? [`${unmeasured} dispatches were not measured: the device gave no timestamps`] : []),
    ...(step >= COARSE_MICROSECONDS || (step === 0 && profile.dispatches > 0)
      ? [
          `timestamps are coarse (steps of ${step === 0 ? "more than all of this" : `${step} us`}): trust sums over many dispatches only`,
        ]
      : []),
  ].join("\n");
}

/** Columns of text; all but the first `names` of them are numbers, and end below each other. */
function aligned(heads: readonly string[], names: number, rows: readonly (readonly string[])[]): string[] {
  const lines = [heads, ...rows];
  const widths = heads.map((_, column) => Math.max(...lines.map((line) => line[column]!.length)));
  return lines.map((line) =>
    line
      .map((cell, i) => (i < names ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!)))
      .join("  ")
      .trimEnd(),
  );
}
