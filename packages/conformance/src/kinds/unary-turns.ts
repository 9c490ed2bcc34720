import type { FloatType } from "@backplane/core";
import type { Domain, Entries } from "./entry.js";
import { everything } from "./unary-steps.js";
import { epsilon, ulp } from "./units.js";

const { POSITIVE_INFINITY: infinity } = Number;
const everywhere = { from: -infinity, to: infinity, direction: 1 } as const;
const magnitude = ({ low, high }: { readonly low: number; readonly high: number }) =>
  Math.max(Math.abs(low), Math.abs(high));

/** WGSL grants no accuracy elsewhere. */
const circle: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -Math.PI, highest: Math.PI },
  f16: { lowest: -Math.PI, highest: Math.PI },
};
const withinOne: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -1, highest: 1 },
  f16: { lowest: -1, highest: 1 },
};
/** The f32 nearest to pi and its half; f16 has none larger. */
const [pi, halfPi] = [Math.fround(Math.PI), Math.fround(Math.PI / 2)];

/** Zeros of either sign are their own results. */
const keepsZeros = [
  [-0, -0],
  [0, 0],
] as const;

/** WGSL grants arcs 6.77e-5; relative below 1/4, as everywhere near a zero. */
const arcError = (x: number) => 6.77e-5 * Math.min(1, 4 * Math.abs(x));

export const turns: Entries<"sin" | "cos" | "tan" | "asin" | "acos" | "atan"> = {
  sin: {
    ...{ compute: Math.sin, error: () => 2 ** -11, domain: circle },
    course: { from: -Math.PI / 2, to: Math.PI / 2, direction: 1 },
    ...{ mirror: -1, outermost: [-1, 1], mayPassOutermost: true, points: [[0, 0]], zeros: keepsZeros },
    allows: (range) => magnitude(range) <= 3,
    image: () => ({ low: -1, high: 1 }),
  },
  cos: {
    ...{ compute: Math.cos, error: () => 2 ** -11, domain: circle },
    course: { from: 0, to: Math.PI, direction: -1 },
    ...{ mirror: 1, outermost: [-1, 1], mayPassOutermost: true, points: [[0, 1]] },
    allows: (range) => magnitude(range) <= 3,
    image: () => ({ low: -1, high: 1 }),
  },
  tan: {
    compute: Math.tan,
    // The quotient of a sine and a cosine, each with 2^-11.
    error: (_x, y) => 2 ** -10 * (1 + Math.abs(y)) * Math.hypot(1, y),
    domain: circle,
    course: { from: -1.5707, to: 1.5707, direction: 1 },
    ...{ mirror: -1, points: [[0, 0]], zeros: keepsZeros },
    allows: (range) => magnitude(range) <= 1,
  },
  asin: {
    ...{ compute: Math.asin, error: arcError, domain: withinOne },
    course: { from: -1, to: 1, direction: 1 },
    ...{ mirror: -1, outermost: [-halfPi, halfPi], mayPassOutermost: true, points: [[0, 0]] },
    ...{ undefinedAt: [2, -1.5], zeros: keepsZeros },
    allows: (range) => magnitude(range) <= 0.9375,
  },
  acos: {
    ...{ compute: Math.acos, error: () => 6.77e-5, domain: withinOne },
    course: { from: -1, to: 1, direction: -1 },
    ...{ outermost: [0, pi], mayPassOutermost: true, points: [[1, 0]], undefinedAt: [2, -1.5] },
    allows: (range) => magnitude(range) <= 0.9375,
  },
  atan: {
    ...{ compute: Math.atan, error: (_x: number, y: number) => 4096 * ulp(y), domain: everything },
    ...{ course: everywhere, mirror: -1, outermost: [-halfPi, halfPi], mayPassOutermost: true },
    points: [[0, 0]],
    limits: [
      [infinity, halfPi],
      [-infinity, -halfPi],
    ],
    zeros: keepsZeros,
  },
};

/** e^|x| with its error, twice; relative below 1/4. */
const hyperbolicError = (x: number) =>
  (3 + 2 * Math.abs(x)) * epsilon * Math.exp(Math.abs(x)) * Math.min(1, 4 * Math.abs(x));
const untilOverflow: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -88.7, highest: 88.7 },
  f16: { lowest: -11, highest: 11 },
};
const wide: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -1e4, highest: 1e4 },
  f16: { lowest: -1e4, highest: 1e4 },
};
/** That of the logarithm, twice for the roundings before it; relative below 1/4. */
const areaError = (x: number, y: number) => 2 ** -20 * Math.min(1, 4 * Math.abs(x)) + 4 * ulp(y);

export const hyperbolics: Entries<"sinh" | "cosh" | "asinh" | "acosh" | "atanh"> = {
  sinh: {
    ...{ compute: Math.sinh, error: (x: number, y: number) => hyperbolicError(x) + 2 * ulp(y) },
    ...{ domain: untilOverflow, course: everywhere, mirror: -1, points: [[0, 0]], zeros: keepsZeros },
    limits: [
      [infinity, infinity],
      [-infinity, -infinity],
      [1000, infinity],
    ],
    allows: (range) => magnitude(range) <= 6,
  },
  cosh: {
    compute: Math.cosh,
    error: (x, y) => (3 + 2 * Math.abs(x)) * epsilon * Math.exp(Math.abs(x)) + 2 * ulp(y),
    ...{ domain: untilOverflow, course: { ...everywhere, from: 0 }, mirror: 1, points: [[0, 1]] },
    ...{ outermost: [1, infinity], mayPassOutermost: true },
    limits: [
      [infinity, infinity],
      [-infinity, infinity],
      [1000, infinity],
    ],
    allows: (range) => magnitude(range) <= 6,
    image: (range) => ({ low: 1, high: Math.cosh(magnitude(range)) }),
  },
  asinh: {
    ...{ compute: Math.asinh, error: areaError, domain: wide, course: everywhere, mirror: -1 },
    ...{ points: [[0, 0]], zeros: keepsZeros },
    limits: [
      [infinity, infinity],
      [-infinity, -infinity],
    ],
  },
  acosh: {
    // Near 1 it is sqrt(2 (x - 1)): a rounding of x^2 - 1 would cost half the digits.
    ...{ compute: Math.acosh, error: (_x: number, y: number) => 2 ** -20 * Math.min(1, y) + 4 * ulp(y) },
    domain: { f32: { lowest: 1, highest: 1e4, zero: false }, f16: { lowest: 1, highest: 1e4, zero: false } },
    ...{ course: { ...everywhere, from: 1 }, outermost: [0, infinity], points: [[1, 0]] },
    ...{ undefinedAt: [0.5, -2], limits: [[infinity, infinity]] },
    allows: (range) => range.low >= 1.0625,
  },
  atanh: {
    ...{ compute: Math.atanh, error: areaError },
    domain: {
      f32: { lowest: 2 ** -23 - 1, highest: 1 - 2 ** -23 },
      f16: { lowest: 2 ** -10 - 1, highest: 1 - 2 ** -10 },
    },
    ...{ course: { from: -1, to: 1, direction: 1 }, mirror: -1, points: [[0, 0]], undefinedAt: [2, -1.5] },
    limits: [
      [1, infinity],
      [-1, -infinity],
    ],
    zeros: keepsZeros,
    allows: (range) => magnitude(range) <= 0.9375,
  },
};
