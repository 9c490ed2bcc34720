/** Random numbers that depend only on the seed, so that a run can be repeated. */
export class Random {
  #state: number;

  constructor(seed: number) {
    // Multiplying by an odd constant spreads neighbouring seeds; the state may be anything but 0.
    this.#state = Math.imul(seed + 1, 0x9e3779b1) || 1;
    for (let i = 0; i < 16; i++) this.uniform();
  }

  /** Evenly distributed over [0, 1): xorshift32 (G. Marsaglia, Xorshift RNGs, 2003). */
  uniform(): number {
    let x = this.#state;
    x ^= x << 13;
    x ^= x >>> 17;
    x ^= x << 5;
    this.#state = x;
    return (x >>> 0) / 2 ** 32;
  }

  /** Normally distributed with mean 0 and variance 1 (Box and Muller, 1958). */
  normal(): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return radius * Math.cos(2 * Math.PI * this.uniform());
  }

  /** The numbers 0 to n - 1 in random order (Fisher and Yates). */
  order(n: number): Uint32Array {
    const order = Uint32Array.from({ length: n }, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(this.uniform() * (i + 1));
      const swapped = order[i]!;
      order[i] = order[j]!;
      order[j] = swapped;
    }
    return order;
  }
}
