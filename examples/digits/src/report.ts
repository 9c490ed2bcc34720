import type { BackendListing, MemoryStatistics, SwapReport } from "@backplane/core";
import type { RunResult } from "./result.js";
import type { StretchResult } from "./training.js";

export function listBackends(backends: readonly BackendListing[]): string {
  const lines = backends.map((listing) => {
    if (!listing.available) return `  ${listing.name.padEnd(8)} not here: ${plainReason(listing.reason)}`;
    const { name, software } = listing.device;
    return `  ${listing.name.padEnd(8)} ${name}${software ? " (a GPU emulated in software: slow)" : ""}`;
  });
  return ["Backends of this machine:", ...lines].join("\n");
}

/** Error messages name the call that failed; here that is of no interest. */
export function plainReason(reason: string): string {
  return reason.replace(/^\w+: /, "");
}

export function describeSwap({ from, to, allocations, bytes, milliseconds }: SwapReport): string {
  const moved = `${allocations} allocations, ${megabytes(bytes)}`;
  return `Swapped ${from} -> ${to}: ${moved}, ${milliseconds.toFixed(0)} ms; the handles stay.`;
}

export function describeRate({ loss, imagesPerSecond }: StretchResult): string {
  return `loss ${loss.toFixed(3)}  ${grouped(imagesPerSecond)} images/s`;
}

export function summarise(result: RunResult): string {
  const { test, difference, memory } = result;
  return [
    table(result.stretches),
    "",
    `Test accuracy: ${(100 * test.accuracy).toFixed(2)}% (${grouped(test.correct)} of ${grouped(test.images)})`,
    difference === null
      ? "Only one backend took part, so there are no logits to compare."
      : `Largest difference between the logits of the two backends: ${difference.absolute.toExponential(1)}, ` +
        `${difference.relative.toExponential(1)} of the largest logit (${difference.scale.toFixed(1)})`,
    "",
    "Device memory:",
    `  training  ${describeMemory(memory.training)}`,
    `  freed     ${describeMemory(memory.freed)}`,
    `  disposed  ${describeMemory(memory.disposed)}`,
    "",
    `Done in ${result.seconds.toFixed(1)} s.`,
  ].join("\n");
}

function table(stretches: readonly StretchResult[]): string {
  const rows = [
    ["backend", "seconds", "images/s", "loss", "device"],
    ...stretches.map(({ backend, device, software, seconds, imagesPerSecond, loss }) => [
      backend,
      seconds.toFixed(2),
      grouped(imagesPerSecond),
      loss.toFixed(3),
      software ? `${device} (software)` : device,
    ]),
  ];
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  // Names to the left, numbers to the right.
  const cell = (text: string, column: number): string =>
    column === 0 || column === widths.length - 1
      ? text.padEnd(widths[column]!)
      : text.padStart(widths[column]!);
  return rows.map((row) => row.map(cell).join("  ").trimEnd()).join("\n");
}

function describeMemory({ liveAllocations, liveBytes, peakBytes, reservedBytes }: MemoryStatistics): string {
  return (
    `${liveAllocations} live allocations, ${megabytes(liveBytes)}; ` +
    `peak ${megabytes(peakBytes)}, reserved ${megabytes(reservedBytes)}`
  );
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

function grouped(value: number): string {
  return Math.round(value).toLocaleString("en-US");
}
