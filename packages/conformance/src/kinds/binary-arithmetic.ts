import type { ArithmeticKind, FloatType } from "@backplane/core";
import type { BinaryEntry, DrawnPair, SecondOperand, Triple } from "./entry.js";
import { epsilon, ulp } from "./units.js";

const { NaN: nan, POSITIVE_INFINITY: infinity } = Number;

/** Sums of numbers of like size, whose leading digits may cancel, and of other sizes. */
const addend: SecondOperand = (x, target, next, i) => {
  const sign = next() < 0.5 ? -1 : 1;
  if (i % 4 === 0) return sign * 2 ** target();
  return sign * Math.abs(x) * 2 ** ((i % 4 === 1 ? 2 : 30) * (next() - 0.5));
};

/** For quotients of 2^target, of either sign. */
const divisor: SecondOperand = (x, target, next) => ((next() < 0.5 ? -1 : 1) * x) / 2 ** target();

/** Divisors that are smaller might lead to quotients that overflow. */
const leastDivisor: Readonly<Record<FloatType, number>> = { f32: 2 ** -20, f16: 2 ** -8 };
const dividing = ({ a, b, dtype }: DrawnPair) => [a, Math.abs(b) < leastDivisor[dtype] ? 1 : b] as const;

const isPositive = (range: { readonly low: number }) => range.low >= 2 ** -4;

/** One instruction. */
const rounded = (compute: BinaryEntry["compute"]) => ({
  ...{ compute, isRounded: true as const, second: addend },
  error: (_a: number, _b: number, y: number) => ulp(y),
});

/** Both orders of the arguments of functions that are exact. */
const exact = (compute: BinaryEntry["compute"]) => ({ compute, second: addend });

/** a - b trunc(a / b), which is exact. */
const remainder = (a: number, b: number) => a % b;

/** The remainder with the sign of the divisor, which a zero has, too. */
const modulo = (a: number, b: number): number => {
  const rest = a % b;
  if (rest === 0) return Math.sign(b) * 0;
  return rest < 0 === b < 0 ? rest : rest + b;
};

const noRemainder = [
  [0, 0],
  [1, 0],
  [infinity, 2],
] as const;

export const arithmetic: Readonly<Record<ArithmeticKind, BinaryEntry>> = {
  add: {
    ...rounded((a, b) => a + b),
    limits: (largest) => [
      [infinity, 1, infinity],
      [largest, largest, infinity],
    ],
    zeros: [
      [-0, -0, -0],
      [-0, 0, 0],
      [1, -1, 0],
    ],
    subnormals: (least, half) => [
      [least, least, 2 * least],
      [half, half, 2 * half],
    ],
  },
  sub: {
    ...rounded((a, b) => a - b),
    limits: (largest) => [
      [1, infinity, -infinity],
      [-largest, largest, -infinity],
    ],
    zeros: [
      [-0, 0, -0],
      [0, 0, 0],
    ],
    subnormals: (least, half) => [
      [4 * half, 3 * half, half],
      [half, least, half - least],
    ],
  },
  mul: {
    ...rounded((a, b) => a * b),
    second: (x, target) => 2 ** target() / x,
    limits: (largest) => [
      [infinity, -2, -infinity],
      [largest, 2, infinity],
    ],
    zeros: [
      [-1, 0, -0],
      [-0, -2, 0],
    ],
    subnormals: (_least, half) => [
      [half, 2, 2 * half],
      [4 * half, 0.25, half],
    ],
  },
  div: {
    ...rounded((a, b) => a / b),
    error: (_a, _b, y) => 2.5 * ulp(y),
    // WGSL grants nothing for larger divisors.
    domain: (_a, b) => Math.abs(b) <= 2 ** 126,
    drawn: dividing,
    second: (x, target) => x / 2 ** target(),
    undefinedAt: [[0, 0]],
    limits: (largest) => [
      [1, 0, infinity],
      [-1, 0, -infinity],
      [largest, 0.25, infinity],
    ],
    zeros: [
      [0, -1, -0],
      [-0, -3, 0],
    ],
    subnormals: (_least, half) => [
      [half, 0.5, 2 * half],
      [4 * half, 4, half],
    ],
    allows: (_a, b) => isPositive(b),
  },
  max: {
    ...exact(Math.max),
    limits: () => [
      [infinity, 1, infinity],
      [-infinity, 1, 1],
    ],
    subnormals: (least, half) => [
      [least, 0, least],
      [-least, -half, -least],
    ],
  },
  min: {
    ...exact(Math.min),
    limits: () => [
      [infinity, 1, 1],
      [-infinity, 1, -infinity],
    ],
  },
  mod: {
    compute: modulo,
    // The remainder is exact; b is added to one of the other sign.
    error: (_a, _b, y) => ulp(y),
    isRounded: true,
    drawn: dividing,
    second: (x, target, next, i) => (i % 2 === 0 ? addend : divisor)(x, target, next, i),
    points: [
      [7, 3, 1],
      [-7, 3, 2],
      [7, -3, -2],
      [-7, -3, -1],
      [5.5, 2, 1.5],
    ],
    undefinedAt: noRemainder,
    limits: () => [
      [1, infinity, 1],
      [-1, -infinity, -1],
    ],
    zeros: [
      [-6, 3, 0],
      [6, -3, -0],
      [-0, 2, 0],
      [0, -2, -0],
    ],
    subnormals: (_least, half) => [[5 * half, 3 * half, 2 * half]],
    allows: (_a, b) => isPositive(b),
    image: (_a, b) => ({ low: 0, high: b.high }),
  },
  rem: {
    compute: remainder,
    drawn: dividing,
    second: (x, target, next, i) => (i % 2 === 0 ? addend : divisor)(x, target, next, i),
    points: [
      [7, 3, 1],
      [-7, 3, -1],
      [7, -3, 1],
      [-7, -3, -1],
      [5.5, 2, 1.5],
    ],
    undefinedAt: noRemainder,
    limits: () => [
      [1, infinity, 1],
      [-1, infinity, -1],
    ],
    zeros: [
      [-6, 3, -0],
      [6, -3, 0],
      [-0, 2, -0],
      [0, -2, 0],
    ],
    subnormals: (least, half) => [
      [half + least, half, least],
      [-half, 4 * half, -half],
    ],
    allows: (_a, b) => isPositive(b),
    image: (_a, b) => ({ low: -b.high, high: b.high }),
  },
  floorDiv: {
    // In double precision the quotient of two f32 is whole only if it is exactly so.
    compute: (a, b) => Math.floor(a / b),
    // Below 2^22 this is less than 1, so that whole numbers are exact.
    error: (_a, _b, y) => 2.5 * ulp(y),
    isRounded: true,
    drawn: dividing,
    second: (x, target, next, i) => (i % 2 === 0 ? addend : divisor)(x, target, next, i),
    points: [
      [7, 3, 2],
      [-7, 3, -3],
      [7, -3, -3],
      [-7, -3, 2],
      [6, 3, 2],
      [0.25, -1024, -1],
    ],
    undefinedAt: [[0, 0]],
    limits: (largest) => [
      [1, 0, infinity],
      [-1, 0, -infinity],
      [largest, 0.25, infinity],
      [infinity, 2, infinity],
    ],
    zeros: [
      [0, 3, 0],
      [-0, 3, -0],
      [1, 3, 0],
    ],
    allows: (_a, b) => isPositive(b),
    image: (a, b) => ({
      low: Math.floor(Math.min(a.low / b.low, a.low / b.high)),
      high: Math.abs(a.high / b.low),
    }),
  },
  atan2: {
    compute: Math.atan2,
    error: (_a, _b, y) => 4096 * ulp(y),
    steps: true,
    // Not both are 0, and the sign of a zero does not count.
    drawn: ({ a, b }) => [a === 0 ? 1 : a, b],
    second: divisor,
    points: [
      [0, 1, 0],
      [1, 0, Math.fround(Math.PI / 2)],
      [0, -1, Math.fround(Math.PI)],
      [-1, 0, -Math.fround(Math.PI / 2)],
    ],
    limits: () => [
      [infinity, 1, Math.fround(Math.PI / 2)],
      [1, infinity, 0],
      [infinity, infinity, Math.fround(Math.PI / 4)],
    ],
    zeros: [
      [0, 0, 0],
      [-0, 0, -0],
      [-0, 1, -0],
    ],
    allows: (a) => isPositive(a),
    image: () => ({ low: -Math.PI, high: Math.PI }),
  },
  pow: {
    compute: Math.pow,
    // 2^t with t = b log2 |a|: log2 is off by 2^-21 on [1/2, 2] and 3 units outside, the product by one,
    // 2^t by 3 + 2|t|.
    error(a, b, y) {
      const base = Math.abs(a);
      if (base === 0 || b === 0) return 0;
      const logarithm = Math.log2(base);
      const t = b * logarithm;
      const logarithmError = base >= 0.5 && base <= 2 ? 2 ** -21 : 3 * ulp(logarithm);
      const exponentError = Math.abs(b) * logarithmError + epsilon * Math.abs(t);
      return Math.abs(y) * (Math.expm1(Math.LN2 * exponentError) + (3 + 2 * Math.abs(t)) * epsilon);
    },
    steps: true,
    // WGSL grants nothing for powers of numbers that are not positive.
    domain: (a) => a > 0,
    // Powers up to 2^12 in size either way. Every second case: bases of either sign, and zero, with whole
    // exponents.
    drawn({ index, seed, next }) {
      if (seed % 4 < 2)
        return [index % 7 === 3 ? 0 : (next() < 0.5 ? -1 : 1) * (0.5 + next()), Math.floor(next() * 9)];
      return [2 ** (4 * next() - 2), 12 * next() - 6];
    },
    second(x, target, next, i) {
      if (x < 0) return Math.round(8 * (next() - 0.5));
      if (i % 4 === 1) return [0.5, -0.5, 2, 3, -1, 1 / 3][Math.floor(6 * next())]!;
      return x === 1 ? 100 * next() : target() / Math.log2(x);
    },
    undefinedAt: [[-8, 0.5]],
    // NaN^0 and 1^NaN are 1 to some and NaN to others; no promise is made of them.
    nanOf: [
      [nan, 2],
      [2, nan],
    ],
    limits: (): readonly Triple[] => [
      [2, 1000, infinity],
      [2, infinity, infinity],
    ],
    allows: (a, b) => isPositive(a) && a.high <= 4 && Math.max(Math.abs(b.low), Math.abs(b.high)) <= 2,
  },
};
