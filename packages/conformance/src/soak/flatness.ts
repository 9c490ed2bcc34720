/** The memory held at one moment, in bytes. */
export interface MemorySample {
  readonly seconds: number;
  /** Of the backend: see `MemoryStatistics`. */
  readonly liveBytes: number;
  readonly reservedBytes: number;
  /** Reserved bytes that are neither live nor allowed to be kept for later; at least 0. */
  readonly excessBytes: number;
  /** Memory of the process, if the caller can tell. */
  readonly residentBytes?: number;
  readonly heapBytes?: number;
  readonly externalBytes?: number;
}

export type MemoryGauge = "excessBytes" | "residentBytes" | "heapBytes" | "externalBytes";

export const memoryGauges: readonly MemoryGauge[] = [
  "excessBytes",
  "residentBytes",
  "heapBytes",
  "externalBytes",
];

/**
 * Bytes by which a gauge may rise in half a run, since samples scatter with the allocations that happen to be
 * live. The process also holds compiled shaders and memory that its allocator has not given back.
 */
const allowances: Readonly<Record<MemoryGauge, number>> = {
  excessBytes: 2 ** 23,
  residentBytes: 2 ** 25,
  heapBytes: 2 ** 23,
  externalBytes: 2 ** 23,
};

/** How one gauge moved over the second half of a run. */
export interface Trend {
  readonly gauge: MemoryGauge;
  readonly flat: boolean;
  /** Bytes by which the line of least squares rises over the second half. */
  readonly rise: number;
  /** Bytes by which it may rise: 8 MiB (the process: 32), or three standard errors if that is more. */
  readonly allowed: number;
  /** In the second half. */
  readonly mean: number;
}

/**
 * Fits a line to the second half of the samples, when caches and pools are full: bytes over the number of the
 * sample. Samples come at equal steps of the run, so pauses of the machine do not stretch it. Memory is flat if the
 * line rises by at most `Trend.allowed`; its standard error is that of the slope, from the scatter of the samples
 * around the line. Returns undefined for gauges that were not read, and for fewer than 8 samples, which say nothing.
 */
export function trendOf(gauge: MemoryGauge, samples: readonly MemorySample[]): Trend | undefined {
  const half = samples.slice(Math.floor(samples.length / 2));
  const points = half.flatMap(({ [gauge]: bytes }, i) => (bytes === undefined ? [] : [[i, bytes] as const]));
  const n = points.length;
  if (samples.length < 8 || n === 0) return undefined;
  const middle = points.reduce((sum, [i]) => sum + i, 0) / n;
  const mean = points.reduce((sum, [, bytes]) => sum + bytes, 0) / n;
  const spread = points.reduce((sum, [i]) => sum + (i - middle) ** 2, 0);
  const slope = points.reduce((sum, [i, bytes]) => sum + (i - middle) * (bytes - mean), 0) / spread;
  const scatter = points.reduce((sum, [i, bytes]) => sum + (bytes - mean - slope * (i - middle)) ** 2, 0);
  const standardError = Math.sqrt(scatter / (n - 2) / spread);
  const length = points[n - 1]![0] - points[0]![0];
  const allowed = Math.max(allowances[gauge], 3 * standardError * length);
  const rise = slope * length;
  return { gauge, flat: rise <= allowed, rise, allowed, mean };
}
