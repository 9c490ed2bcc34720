import type { FloatType } from "@backplane/core";
import type { Domain, Entries, UnaryEntry } from "./entry.js";
import { erf, erfc } from "./gaussian.js";
import { epsilon } from "./units.js";

const { POSITIVE_INFINITY: infinity } = Number;
const everywhere = { from: -infinity, to: infinity, direction: 1 } as const;
const fromZero = { from: 0, to: infinity, direction: 1 } as const;

/** Far beyond the overflow of formulas that are computed literally. */
const wide: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -1e4, highest: 1e4 },
  f16: { lowest: -1e4, highest: 1e4 },
};

/** 1e-5 as WGSL has it, but relative below 1/4: sinh / cosh from exponentials loses all digits there. */
const tanhError = (x: number) => 1e-5 * Math.min(1, 4 * Math.abs(x));

/**
 * Rational approximations are accurate to 1.5e-7 (Abramowitz and Stegun 7.1.26) with their rounding; relative
 * below 1/4.
 */
const erfError = (x: number) => 2 ** -20 * Math.min(1, 4 * Math.abs(x));

const logistic = (x: number) => 1 / (1 + Math.exp(-x));

/** 1 / (1 + e^-x): the exponential enters with weight 1 - y; one addition, one division. */
const logisticError = (x: number, y: number) =>
  y * ((1 - y) * (3 + 2 * Math.abs(x)) + 3.5) * epsilon + 2 ** -126;

/** Units that weigh x: they pass through 0, become x, have one minimum above -0.3, and end in -0. */
const weighted = {
  ...{ domain: wide, course: fromZero },
  limits: [
    [infinity, infinity],
    [-infinity, -0],
  ],
  points: [
    [0, 0],
    [100, 100],
  ],
  image: ({ high }) => ({ low: -0.3, high: Math.max(high, 0) }),
} satisfies Partial<UnaryEntry>;

/** Functions of units that weigh x. Far below 0 they are -0, but as products would give NaN for -Infinity. */
const ending =
  <Rest extends readonly number[]>(f: (x: number, ...rest: Rest) => number) =>
  (x: number, ...rest: Rest): number =>
    f(Math.max(x, wide.f32.lowest), ...rest);

const saturates = [
  [infinity, 1],
  [-infinity, -1],
] as const;

export const activations: Entries<"sigmoid" | "tanh" | "erf" | "gelu" | "geluTanh" | "silu" | "softplus"> = {
  sigmoid: {
    ...{ compute: logistic, error: logisticError, domain: wide, course: everywhere, outermost: [0, 1] },
    points: [
      [0, 0.5],
      [100, 1],
    ],
    limits: [
      [infinity, 1],
      [-infinity, 0],
    ],
  },
  tanh: {
    ...{ compute: Math.tanh, error: tanhError, domain: wide, course: everywhere },
    ...{ mirror: -1, outermost: [-1, 1], limits: saturates },
    points: [
      [0, 0],
      [20, 1],
      [-20, -1],
    ],
    zeros: [
      [-0, -0],
      [0, 0],
    ],
  },
  erf: {
    ...{ compute: erf, error: erfError, domain: wide, course: everywhere },
    ...{ mirror: -1, outermost: [-1, 1], limits: saturates },
    points: [
      [0, 0],
      [10, 1],
      [-10, -1],
    ],
  },
  gelu: {
    ...weighted,
    // 1 + erf(x / sqrt(2)) cancels for negative x; its other name erfc(-x / sqrt(2)) does not.
    compute: ending((x) => (x / 2) * erfc(-x / Math.SQRT2)),
    error: ending(
      (x, y: number) =>
        (Math.abs(x) / 2) * (erfError(x / Math.SQRT2) + epsilon) + 2 * epsilon * Math.abs(y) + 2 ** -126,
    ),
  },
  geluTanh: {
    ...weighted,
    // 1 + tanh(u) = 2 / (1 + e^-2u), for the same reason.
    compute: ending((x) => x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)))),
    // The argument u of the hyperbolic tangent has 5 roundings, damped by its slope.
    error: ending((x, y: number) => {
      const u = Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
      const slope = 1 - Math.tanh(u) ** 2;
      const inner = tanhError(u) + slope * Math.abs(u) * 5 * epsilon + epsilon;
      return (Math.abs(x) / 2) * inner + 2 * epsilon * Math.abs(y) + 2 ** -126;
    }),
  },
  silu: {
    ...weighted,
    compute: ending((x) => x / (1 + Math.exp(-x))),
    error: ending((x, y: number) => Math.abs(x) * logisticError(x, logistic(x)) + epsilon * Math.abs(y)),
  },
  softplus: {
    compute: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
    // max(x, 0) + log(1 + t), t = e^-|x|. The logarithm is granted 2^-21, relative for small t: log(1 + t)
    // taken literally loses all digits there.
    error(x, y) {
      const t = Math.exp(-Math.abs(x));
      const logarithm = 2 ** -21 * Math.min(1, 4 * t) + t * (3 + 2 * Math.abs(x)) * epsilon;
      return logarithm + 2 * epsilon * y + 2 ** -126;
    },
    ...{ domain: wide, course: everywhere, outermost: [0, infinity], points: [[100, 100]] },
    limits: [
      [infinity, infinity],
      [-infinity, 0],
    ],
  },
};
