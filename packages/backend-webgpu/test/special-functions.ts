/** References in double precision for functions that JavaScript does not have. */

/** Series for small arguments, continued fraction of the complement for large ones (A&S 7.1.5, 7.1.14). */
export function erf(x: number): number {
  const size = Math.abs(x);
  if (size >= 2.5) return Math.sign(x) * (1 - erfc(size));
  let sum = size;
  let term = size;
  for (let n = 1; n < 80; n++) {
    term *= (-size * size) / n;
    sum += term / (2 * n + 1);
  }
  return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
}

/** 1 - erf(x) for x >= 0, without cancellation for large x. */
export function erfc(x: number): number {
  if (x < 2.5) return 1 - erf(x);
  let fraction = 0;
  for (let k = 200; k > 0; k--) fraction = k / 2 / (x + fraction);
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * (x + fraction));
}

export function roundHalfEven(x: number): number {
  const below = Math.floor(x);
  if (x - below !== 0.5) return Math.round(x);
  return below % 2 === 0 ? below : below + 1;
}

export function logistic(x: number): number {
  return x >= 0 ? 1 / (1 + Math.exp(-x)) : Math.exp(x) / (1 + Math.exp(x));
}
