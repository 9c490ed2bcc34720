/** erf(x) = 2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1) / (2n+1)!!, whose terms do not cancel (DLMF 7.6.2). */
function erfSeries(x: number): number {
  let term = x;
  let sum = x;
  for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-17; n++) {
    term *= (2 * x * x) / (2 * n + 1);
    sum += term;
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum;
}

/** Accurate to a few units in the last place, as is `erfc`. */
export function erf(x: number): number {
  return Math.abs(x) < 1 ? erfSeries(x) : Math.sign(x) * (1 - erfc(Math.abs(x)));
}

/** 1 - erf(x). For large x it uses the continued fraction DLMF 7.9.1, evaluated from the far end. */
export function erfc(x: number): number {
  if (Number.isNaN(x)) return x;
  if (x < 0) return 2 - erfc(-x);
  if (x < 2) return 1 - erfSeries(x);
  if (x === Number.POSITIVE_INFINITY) return 0;
  let fraction = x;
  for (let n = 120; n > 0; n--) fraction = x + n / 2 / fraction;
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * fraction);
}
