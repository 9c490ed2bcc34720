/** The summary of repeated measurements of one quantity. */
export interface Summary {
  readonly median: number;
  /** Middle half of the values, as a share of their median: how far the middle can be trusted. */
  readonly spread: number;
}

/** Returns the value below which a share of the sorted values lies, between two of them if necessary. */
export function quantile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new RangeError("quantile: there are no values; allowed: at least one");
  const sorted = [...values].sort((a, b) => a - b);
  const place = share * (sorted.length - 1);
  const [below, above] = [sorted[Math.floor(place)]!, sorted[Math.ceil(place)]!];
  return below + (above - below) * (place - Math.floor(place));
}

export function summarise(values: readonly number[]): Summary {
  const median = quantile(values, 0.5);
  return { median, spread: (quantile(values, 0.75) - quantile(values, 0.25)) / median };
}

/** Beyond this spread, a row is marked as unstable: somebody else was using the machine. */
export const stableSpread = 0.1;

/**
 * Returns how many times as fast as the other ours was, round by round, so that a disturbance that lasts for
 * a round affects both.
 */
export function ratios(ours: readonly number[], others: readonly number[], work = 1): number[] {
  if (ours.length !== others.length)
    throw new RangeError(`ratios: ${ours.length} and ${others.length} values; allowed: as many of each`);
  return ours.map((seconds, i) => (work * others[i]!) / seconds);
}
