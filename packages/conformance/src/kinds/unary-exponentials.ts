import type { Entries } from "./entry.js";
import { positive } from "./unary-steps.js";
import { epsilon, ulp } from "./units.js";

const { POSITIVE_INFINITY: infinity } = Number;
const everywhere = { from: -infinity, to: infinity, direction: 1 } as const;
const fromZero = { from: 0, to: infinity, direction: 1 } as const;
const isPositive = (range: { readonly low: number }) => range.low >= 2 ** -4;

/** A logarithm is granted 2^-21 from 1/2 to 2; relative near its zero, where one taken literally loses all digits. */
const nearZero = (x: number) => 2 ** -21 * Math.min(1, 4 * Math.abs(x));

/** Powers of e and 2, and logarithms. */
export const exponentials: Entries<"exp" | "expm1" | "exp2" | "log" | "log1p" | "log2"> = {
  exp: {
    compute: Math.exp,
    error: (x, y) => (3 + 2 * Math.abs(x)) * ulp(y),
    domain: { f32: { lowest: -87, highest: 88.7 }, f16: { lowest: -9.5, highest: 11 } },
    course: everywhere,
    outermost: [0, infinity],
    points: [[0, 1]],
    limits: [
      [infinity, infinity],
      [-infinity, 0],
      [1000, infinity],
    ],
    allows: (range) => range.high <= 8 && range.low >= -8,
  },
  expm1: {
    compute: Math.expm1,
    // e^x with its error and one difference; relative below 1/4: e^x - 1 taken literally loses all digits there.
    error: (x, y) =>
      (3 + 2 * Math.abs(x)) * epsilon * Math.exp(x) * Math.min(1, 4 * Math.abs(x)) + 2 * ulp(y),
    domain: { f32: { lowest: -1e4, highest: 88.7 }, f16: { lowest: -1e4, highest: 11 } },
    course: everywhere,
    outermost: [-1, infinity],
    points: [
      [0, 0],
      [-100, -1],
    ],
    limits: [
      [infinity, infinity],
      [-infinity, -1],
      [1000, infinity],
    ],
    allows: (range) => range.high <= 8,
  },
  exp2: {
    compute: (x) => 2 ** x,
    error: (x, y) => (3 + 2 * Math.abs(x)) * ulp(y),
    domain: { f32: { lowest: -126, highest: 127.9 }, f16: { lowest: -14, highest: 15.9 } },
    course: everywhere,
    outermost: [0, infinity],
    points: [
      [0, 1],
      [1, 2],
      [10, 1024],
      [-1, 0.5],
      [-10, 2 ** -10],
    ],
    limits: [
      [infinity, infinity],
      [-infinity, 0],
      [1000, infinity],
    ],
    allows: (range) => range.high <= 8 && range.low >= -8,
  },
  log: {
    compute: Math.log,
    error: (x, y) => (x >= 0.5 && x <= 2 ? 2 ** -21 : 3 * ulp(y)),
    domain: positive,
    course: fromZero,
    points: [[1, 0]],
    undefinedAt: [-1],
    limits: [
      [infinity, infinity],
      [0, -infinity],
    ],
    allows: isPositive,
  },
  log1p: {
    compute: Math.log1p,
    // The sum is rounded, and the logarithm is granted what it is granted.
    error: (x, y) => (x >= -0.5 && x <= 1 ? 2 * nearZero(x) : epsilon + 3 * ulp(y)),
    domain: {
      f32: { lowest: -0.9999, highest: 3.4e38 },
      f16: { lowest: -0.999, highest: 65504 },
    },
    course: { from: -1, to: infinity, direction: 1 },
    points: [[0, 0]],
    undefinedAt: [-2],
    limits: [
      [infinity, infinity],
      [-1, -infinity],
    ],
    zeros: [
      [-0, -0],
      [0, 0],
    ],
    allows: (range) => range.low >= -0.75,
  },
  log2: {
    compute: Math.log2,
    error: (x, y) => (x >= 0.5 && x <= 2 ? 2 ** -21 : 3 * ulp(y)),
    domain: positive,
    course: fromZero,
    points: [
      [1, 0],
      [2, 1],
      [1024, 10],
      [0.5, -1],
      [2 ** -10, -10],
    ],
    undefinedAt: [-1],
    limits: [
      [infinity, infinity],
      [0, -infinity],
    ],
    allows: isPositive,
  },
};
