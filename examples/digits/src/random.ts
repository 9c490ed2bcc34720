/**
 * Returns the numbers 0 to n - 1 in random order (Fisher and Yates), which depends on the seed and the epoch alone: so a
 * run can be repeated, and continued anywhere.
 */
export function shuffled(n: number, seed: number, epoch: number): Uint32Array {
  const next = xorshift(Math.imul(seed + 1, 0x9e3779b1) ^ Math.imul(epoch + 1, 0x85ebca6b));
  const order = Uint32Array.from({ length: n }, (_, i) => i);
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(next() * (i + 1));
    const swapped = order[i]!;
    order[i] = order[j]!;
    order[j] = swapped;
  }
  return order;
}

/** Numbers evenly distributed over [0, 1): xorshift32 (G. Marsaglia, Xorshift RNGs, 2003). */
function xorshift(seed: number): () => number {
  // Anything but 0.
  let x = seed || 1;
  const next = (): number => {
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    return (x >>> 0) / 2 ** 32;
  };
  for (let i = 0; i < 16; i++) next();
  return next;
}
