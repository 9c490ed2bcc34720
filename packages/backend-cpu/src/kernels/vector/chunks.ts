/** Fewest and most elements that a chunk of an elementwise operation computes; multiples of 4. */
const fewest = 1 << 13;
const most = 1 << 17;

/**
 * Elements for one chunk of `n`: long streams are read faster than many short ones, but all workers
 * should have several. Each element is computed by itself, so results do not depend on this.
 */
export function elementsPerChunk(n: number, workers: number): number {
  const wanted = Math.ceil(n / (8 * workers) / fewest) * fewest;
  return Math.min(Math.max(wanted, fewest), most);
}
