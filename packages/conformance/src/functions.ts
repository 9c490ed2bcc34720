import type { ArithmeticKind, ComparisonKind, IntegerType, UnaryKind } from "@backplane/core";

/*
 * The functions of unary, binary and random in double precision, for whoever has to know what is right: the oracle, the
 * tests of backends, examples. This is an entry point of its own, which imports nothing but types.
 */

/** Each function in double precision, accurate to a few of its units in the last place. */
export const unaryFunctions: Readonly<Record<UnaryKind, (x: number) => number>> = {
  relu: (x) => Math.max(x, 0),
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  tanh: Math.tanh,
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  sqrt: Math.sqrt,
  rsqrt: (x) => 1 / Math.sqrt(x),
  reciprocal: (x) => 1 / x,
  abs: Math.abs,
  neg: (x) => -x,
  sin: Math.sin,
  cos: Math.cos,
  floor: Math.floor,
  ceil: Math.ceil,
  round: roundHalfToEven,
  sign: Math.sign,
  erf,
  // 1 + erf(x / sqrt(2)) cancels for negative x; its other name erfc(-x / sqrt(2)) does not.
  gelu: (x) => (x / 2) * erfc(-x / Math.SQRT2),
  // 1 + tanh(u) = 2 / (1 + e^-2u), for the same reason.
  geluTanh: (x) => x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))),
  silu: (x) => x / (1 + Math.exp(-x)),
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
};

export const binaryFunctions: Readonly<Record<ArithmeticKind, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  max: Math.max,
  min: Math.min,
  pow: Math.pow,
};

/** 1 or 0. */
export const comparisons: Readonly<Record<ComparisonKind, (a: number, b: number) => number>> = {
  equal: (a, b) => Number(a === b),
  notEqual: (a, b) => Number(a !== b),
  less: (a, b) => Number(a < b),
  lessEqual: (a, b) => Number(a <= b),
  greater: (a, b) => Number(a > b),
  greaterEqual: (a, b) => Number(a >= b),
};

/** The kinds of binary that integers have, besides comparisons. */
export type IntegerKind = Exclude<ArithmeticKind, "pow">;

/** On whole numbers of the type; wraps around. */
export const integerFunctions: Readonly<
  Record<IntegerType, Readonly<Record<IntegerKind, (a: number, b: number) => number>>>
> = {
  i32: wrapping((value) => value | 0),
  u32: wrapping((value) => value >>> 0),
};

function wrapping(
  wrap: (value: number) => number,
): Readonly<Record<IntegerKind, (a: number, b: number) => number>> {
  return {
    // Sums of two are exact in double precision; of products imul has the low bits.
    add: (a, b) => wrap(a + b),
    sub: (a, b) => wrap(a - b),
    mul: (a, b) => wrap(Math.imul(a, b)),
    // So is the quotient before its fraction goes: the nearest double of no quotient of 32 bits is a whole number.
    div: (a, b) => (b === 0 ? 0 : wrap(Math.trunc(a / b))),
    max: Math.max,
    min: Math.min,
  };
}

function roundHalfToEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  // x * 0 keeps the sign of a result that is zero.
  if (rest < 0.5) return below === 0 ? x * 0 : below;
  if (rest > 0.5) return below + 1 === 0 ? x * 0 : below + 1;
  const even = below % 2 === 0 ? below : below + 1;
  return even === 0 ? x * 0 : even;
}

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

/** e^(i 2 pi b / 2^32) as [cosine, sine]; exact in all multiples of a quarter turn. */
function turn(b: number): readonly [number, number] {
  const quarters = Math.floor((b + 2 ** 29) / 2 ** 30);
  const angle = (b - quarters * 2 ** 30) * ((2 * Math.PI) / 2 ** 32);
  const [x, y] = [Math.cos(angle), Math.sin(angle)];
  return (
    [
      [x, y],
      [-y, x],
      [-x, -y],
      [y, -x],
    ] as const
  )[quarters % 4]!;
}

/** The standard normal pair that random makes of two words. */
export function normalPair(a: number, b: number): readonly [number, number] {
  const radius = Math.sqrt(-2 * Math.log((a + 0.5) / 2 ** 32));
  const [x, y] = turn(b);
  return [radius * x, radius * y];
}
