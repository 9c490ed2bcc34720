import type { FloatType } from "@backplane/core";
import type { Domain, Entries, UnaryEntry } from "./entry.js";
import { ulp } from "./units.js";

const { POSITIVE_INFINITY: infinity } = Number;

export const everything: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: -3.4e38, highest: 3.4e38 },
  f16: { lowest: -65504, highest: 65504 },
};
export const positive: Readonly<Record<FloatType, Domain>> = {
  f32: { lowest: 0, highest: 3.4e38, zero: false },
  f16: { lowest: 0, highest: 65504, zero: false },
};

/** Whether functions with a pole at 0 have a guaranteed accuracy in the range. */
const isPositive = (range: { readonly low: number }) => range.low >= 2 ** -4;
const magnitude = ({ low, high }: { readonly low: number; readonly high: number }) =>
  Math.max(Math.abs(low), Math.abs(high));

/** Whole numbers near x: infinities and zeros stay what they are. */
const whole = (compute: (x: number) => number, zeros: UnaryEntry["zeros"]): UnaryEntry => ({
  ...{ compute, domain: everything },
  limits: [
    [infinity, infinity],
    [-infinity, -infinity],
  ],
  zeros: [[-0, -0], ...(zeros ?? [])],
});

/** Functions that are exact, and those of a single operation. */
export const steps: Entries<
  | "relu"
  | "relu6"
  | "abs"
  | "neg"
  | "sign"
  | "floor"
  | "ceil"
  | "round"
  | "trunc"
  | "square"
  | "sqrt"
  | "rsqrt"
  | "reciprocal"
> = {
  relu: {
    ...{ compute: (x) => Math.max(x, 0), domain: everything },
    limits: [
      [infinity, infinity],
      [-infinity, 0],
    ],
    subnormals: (least, half) => [
      [least, least],
      [half, half],
    ],
  },
  relu6: {
    ...{ compute: (x) => Math.min(Math.max(x, 0), 6), domain: everything },
    outermost: [0, 6],
    limits: [
      [infinity, 6],
      [-infinity, 0],
    ],
    subnormals: (least, half) => [
      [least, least],
      [half, half],
    ],
  },
  abs: {
    ...{ compute: Math.abs, domain: everything },
    limits: [
      [infinity, infinity],
      [-infinity, infinity],
    ],
    zeros: [[-0, 0]],
    subnormals: (least, half) => [
      [-least, least],
      [half, half],
    ],
    image: (range) => ({ low: 0, high: magnitude(range) }),
  },
  neg: {
    ...{ compute: (x) => -x, domain: everything },
    limits: [
      [infinity, -infinity],
      [-infinity, infinity],
    ],
    zeros: [
      [0, -0],
      [-0, 0],
    ],
    subnormals: (least, half) => [
      [least, -least],
      [-half, half],
    ],
  },
  sign: {
    ...{ compute: Math.sign, domain: everything },
    limits: [
      [infinity, 1],
      [-infinity, -1],
    ],
    subnormals: (least, half) => [
      [least, 1],
      [-half, -1],
    ],
  },
  floor: whole(Math.floor, [[0.5, 0]]),
  ceil: {
    ...whole(Math.ceil, [[-0.5, -0]]),
    subnormals: (least, half) => [
      [least, 1],
      [half, 1],
    ],
  },
  round: whole(roundHalfToEven, [
    [-0.25, -0],
    [0.25, 0],
    [-0.5, -0],
  ]),
  trunc: whole(Math.trunc, [
    [-0.75, -0],
    [0.75, 0],
  ]),
  square: {
    compute: (x) => x * x,
    error: (_x, y) => ulp(y),
    domain: { f32: { lowest: -1.8e19, highest: 1.8e19 }, f16: { lowest: -255, highest: 255 } },
    mirror: 1,
    course: { from: 0, to: infinity, direction: 1 },
    outermost: [0, infinity],
    points: [
      [0, 0],
      [3, 9],
      [-2, 4],
    ],
    limits: [
      [infinity, infinity],
      [-infinity, infinity],
    ],
    zeros: [[-0, 0]],
    allows: (range) => magnitude(range) <= 4,
    image: (range) => ({ low: 0, high: magnitude(range) ** 2 }),
  },
  // Inherited from 1 / inverseSqrt(x): 2 units and a division of 2.5.
  sqrt: {
    compute: Math.sqrt,
    error: (_x, y) => 4.5 * 2 ** -23 * y,
    domain: { f32: { ...positive.f32, zero: true }, f16: { ...positive.f16, zero: true } },
    course: { from: 0, to: infinity, direction: 1 },
    points: [[0, 0]],
    undefinedAt: [-1],
    limits: [[infinity, infinity]],
    zeros: [
      [-0, -0],
      [0, 0],
    ],
    allows: (range) => range.low >= 0,
  },
  rsqrt: {
    compute: (x) => 1 / Math.sqrt(x),
    error: (_x, y) => 2 * ulp(y),
    domain: positive,
    course: { from: 0, to: infinity, direction: -1 },
    undefinedAt: [-1],
    limits: [
      [infinity, 0],
      [0, infinity],
    ],
    allows: isPositive,
  },
  reciprocal: {
    compute: (x) => 1 / x,
    error: (_x, y) => 2.5 * ulp(y),
    // The reciprocals of both ends are normal numbers of either type.
    domain: {
      f32: { lowest: -8e37, highest: 8e37, smallest: 2 ** -125, zero: false },
      f16: { lowest: -16000, highest: 16000, smallest: 2 ** -13, zero: false },
    },
    course: { from: 0, to: infinity, direction: -1 },
    mirror: -1,
    limits: [
      [infinity, 0],
      [0, infinity],
    ],
    allows: isPositive,
  },
};

function roundHalfToEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  // x * 0 keeps the sign of a result that is zero.
  if (rest < 0.5) return below === 0 ? x * 0 : below;
  if (rest > 0.5) return below + 1 === 0 ? x * 0 : below + 1;
  const even = below % 2 === 0 ? below : below + 1;
  return even === 0 ? x * 0 : even;
}
