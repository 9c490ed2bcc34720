/**
 * Elementary functions in fixed point, with whole numbers of any size: an oracle for the oracle. Numbers are
 * multiples of 2^-bits.
 */
const bits = 700n;
const one = 1n << bits;

const times = (a: bigint, b: bigint): bigint => (a * b) >> bits;
const over = (a: bigint, b: bigint): bigint => (a << bits) / b;

/** A double exactly, as long as it is a multiple of 2^-700. */
export function fixed(x: number): bigint {
  let exponent = 0;
  let value = x;
  while (!Number.isInteger(value)) {
    value *= 2 ** 50;
    exponent += 50;
  }
  return (BigInt(value) << bits) >> BigInt(exponent);
}

/** The nearest double, but for a unit or so in its last place. */
export function toNumber(value: bigint): number {
  const size = value < 0n ? -value : value;
  const excess = Math.max(size.toString(2).length - 64, 0);
  return (Number(value >> BigInt(excess)) * 2 ** (excess - 350)) / 2 ** 350;
}

/** sum of next(term, n) from `first` on, until terms vanish. */
function series(first: bigint, next: (term: bigint, n: bigint) => bigint): bigint {
  let sum = 0n;
  for (let [term, n] = [first, 1n]; term !== 0n && term !== -1n; n++) {
    sum += term;
    term = next(term, n);
  }
  return sum;
}

/** e^x = (e^(x / 2^16))^(2^16) */
export function exp(x: bigint): bigint {
  let power = series(one, (term, n) => times(term, x >> 16n) / n);
  for (let i = 0; i < 16; i++) power = times(power, power);
  return power;
}

/** By Newton's method: y + x e^-y - 1. */
export function log(x: bigint): bigint {
  let y = fixed(Math.log(toNumber(x)));
  for (let i = 0; i < 5; i++) y += times(x, exp(-y)) - one;
  return y;
}

/** pi = 16 arctan(1/5) - 4 arctan(1/239) (Machin). */
const pi = ((): bigint => {
  const arctan = (k: bigint): bigint => {
    let sum = 0n;
    for (let [power, n] = [one / k, 0n]; power !== 0n; power /= k * k, n++)
      sum += (n % 2n === 0n ? power : -power) / (2n * n + 1n);
    return sum;
  };
  return 16n * arctan(5n) - 4n * arctan(239n);
})();

export function sin(x: bigint): bigint {
  const rest = x % (2n * pi);
  const square = times(rest, rest);
  return series(rest, (term, n) => -times(term, square) / (2n * n * (2n * n + 1n)));
}

export function cos(x: bigint): bigint {
  return sin(x + pi / 2n);
}

export function sqrt(x: bigint): bigint {
  const value = x << bits;
  let root = 1n << BigInt(Math.ceil(value.toString(2).length / 2));
  for (let next = (root + value / root) / 2n; next < root; next = (root + value / root) / 2n) root = next;
  return root;
}

/** 2 / sqrt(pi) times the sum of (-1)^n x^(2n+1) / (n! (2n+1)) */
export function erf(x: bigint): bigint {
  const square = times(x, x);
  let power = x;
  let sum = x;
  for (let n = 1n; power !== 0n && power !== -1n; n++) {
    power = -times(power, square) / n;
    sum += power / (2n * n + 1n);
  }
  return over(2n * sum, sqrt(pi));
}

/** By Newton's method: y + (x - tan y) cos^2 y. */
function atan(x: bigint): bigint {
  if (x > one || x < -one) return (x > 0n ? pi : -pi) / 2n - atan(over(one, x));
  let y = fixed(Math.atan(toNumber(x)));
  for (let i = 0; i < 5; i++) {
    const cosine = cos(y);
    y += times(cosine, times(x, cosine) - sin(y));
  }
  return y;
}

const rootOf1Less = (x: bigint): bigint => sqrt(one - times(x, x));
const asin = (x: bigint): bigint => atan(over(x, rootOf1Less(x)));
const log2e = over(one, log(2n * one));

const logistic = (x: bigint): bigint => over(one, one + exp(-x));

/** Functions of the oracle, by their definitions. */
export const bigFunctions = {
  ...{ exp, log, sin, cos, sqrt, erf },
  sigmoid: logistic,
  square: (x: bigint): bigint => times(x, x),
  exp2: (x: bigint): bigint => exp(over(x, log2e)),
  log2: (x: bigint): bigint => times(log(x), log2e),
  log1p: (x: bigint): bigint => log(one + x),
  tan: (x: bigint): bigint => over(sin(x), cos(x)),
  atan,
  asin,
  acos: (x: bigint): bigint => pi / 2n - asin(x),
  sinh: (x: bigint): bigint => (exp(x) - exp(-x)) / 2n,
  cosh: (x: bigint): bigint => (exp(x) + exp(-x)) / 2n,
  asinh: (x: bigint): bigint => (x < 0n ? -1n : 1n) * log((x < 0n ? -x : x) + sqrt(times(x, x) + one)),
  acosh: (x: bigint): bigint => log(x + sqrt(times(x, x) - one)),
  atanh: (x: bigint): bigint => log(over(one + x, one - x)) / 2n,
  expm1: (x: bigint): bigint => exp(x) - one,
  tanh: (x: bigint): bigint => over(exp(2n * x) - one, exp(2n * x) + one),
  rsqrt: (x: bigint): bigint => over(one, sqrt(x)),
  reciprocal: (x: bigint): bigint => over(one, x),
  gelu: (x: bigint): bigint => times(x / 2n, one + erf(over(x, sqrt(2n * one)))),
  geluTanh(x: bigint): bigint {
    const cube = times(times(x, x), x);
    return times(x, logistic(times(sqrt(over(8n * one, pi)), x + (44_715n * cube) / 1_000_000n)));
  },
  silu: (x: bigint): bigint => times(x, logistic(x)),
  softplus: (x: bigint): bigint => log(one + exp(x)),
} as const;
