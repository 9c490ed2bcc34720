import type { ArithmeticKind, UnaryKind } from "@backplane/core";

/** The functions in f64, accurate to well below one f32 ULP wherever f32 results are not 0. */

/** e^(x^2) erfc(x) for x >= 0: by the series where that does not cancel, else by the continued fraction. */
function scaledErfc(x: number): number {
  if (x < 0.5) return (1 - erfSeries(x)) * Math.exp(x * x);
  // From the far end; at 1/2 it takes some hundred terms (DLMF 7.9.1).
  let fraction = 0;
  for (let k = 400; k >= 1; k--) fraction = k / 2 / (x + fraction);
  return 1 / (Math.sqrt(Math.PI) * (x + fraction));
}

/** Maclaurin series; alternating, so for small arguments only. */
function erfSeries(x: number): number {
  let term = x;
  let sum = x;
  for (let k = 1; k < 100; k++) {
    term *= (-x * x) / k;
    sum += term / (2 * k + 1);
  }
  return (2 / Math.sqrt(Math.PI)) * sum;
}

function erfc(x: number): number {
  if (x < 0) return 2 - erfc(-x);
  return x > 27 ? 0 : scaledErfc(x) * Math.exp(-x * x);
}

function erf(x: number): number {
  if (Number.isNaN(x)) return x;
  const magnitude = Math.abs(x);
  return Math.sign(x) * (magnitude < 1.5 ? erfSeries(magnitude) : 1 - erfc(magnitude));
}

const sigmoid = (x: number): number => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x)));

const round = (x: number): number => {
  const below = Math.floor(x);
  const rest = x - below;
  if (!(Math.abs(x) < 2 ** 52)) return x;
  if (rest === 0.5) return below % 2 === 0 ? keepSign(below, x) : keepSign(below + 1, x);
  return keepSign(rest < 0.5 ? below : below + 1, x);
};

const keepSign = (value: number, like: number): number =>
  value === 0 && (like < 0 || Object.is(like, -0)) ? -0 : value;

export const unaryReferences: Readonly<Record<UnaryKind, (x: number) => number>> = {
  relu: (x) => Math.max(x, 0),
  sigmoid,
  tanh: Math.tanh,
  exp: Math.exp,
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
  round,
  sign: Math.sign,
  erf: (x) => (x === 0 ? x : erf(x)),
  gelu: (x) => {
    if (x === Number.NEGATIVE_INFINITY) return Number.NaN;
    if (x > 50) return x;
    return (x / 2) * erfc(-x / Math.SQRT2);
  },
  geluTanh: (x) => x * sigmoid(2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)),
  silu: (x) => x * sigmoid(x),
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
};

export const binaryReferences: Readonly<Record<ArithmeticKind, (a: number, b: number) => number>> = {
  add: (a, b) => a + b,
  sub: (a, b) => a - b,
  mul: (a, b) => a * b,
  div: (a, b) => a / b,
  max: Math.max,
  min: Math.min,
  // biome-ignore lint/style/useExponentiationOperator: the function of C and IEEE 754 is meant.
  pow: (a, b) => Math.pow(a, b),
};
