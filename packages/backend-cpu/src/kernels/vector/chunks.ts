/** Fewest and most elements that a chunk of an elementwise operation computes; multiples of 4. */
const fewest = 1 << 13;
const most = 1 << 17;
/** The most for a worker that is alone: 16M elements take 2 to 6% less time (AMD Zen 4). */
const mostAlone = 1 << 20;

/**
 * Returns the elements of one chunk of `n`. Long streams are read faster than many short ones, but all
 * workers should have several. Each element is computed by itself, so results do not depend on this.
 */
export function elementsPerChunk(n: number, workers: number): number {
  const wanted = Math.ceil(n / (8 * workers) / fewest) * fewest;
  return Math.min(Math.max(wanted, fewest), workers === 1 ? mostAlone : most);
}

/** Bytes in whole cache lines of 64: what different workers write must not lie in one. */
export function wholeLines(bytes: number): number {
  return Math.ceil(bytes / 64) * 64;
}

/** `extent` in equal parts of at most `most`: the size of a part, rounded up to a multiple of `unit`. */
export function evenParts(extent: number, most: number, unit: number): number {
  const parts = Math.ceil(extent / most);
  return Math.ceil(extent / parts / unit) * unit;
}
