import { type ArithmeticKind, elementTypes, type FloatType, type UnitsRange } from "@backplane/core";
import { random, roundTo } from "../data.js";
import { binaryEntries } from "../kinds/binary.js";

/** Exponents of the normal numbers of a type. */
const exponents: Readonly<Record<FloatType, readonly [lowest: number, highest: number]>> = {
  f32: [-126, 127],
  f16: [-14, 15],
};

const digits: Readonly<Record<FloatType, number>> = { f32: 23, f16: 10 };

/** The number that is `steps` further from 0, or nearer to it. */
function neighbour(dtype: FloatType, x: number, steps: number): number {
  const { fromBits, toBits } = elementTypes[dtype];
  return fromBits(toBits(x) + steps);
}

/** Arguments at which functions change course: zeros, poles, overflow, underflow, saturation, ties. */
const landmarks: readonly number[] = [
  ...[0.25, 0.5, 0.625, Math.SQRT1_2, 1, Math.SQRT2, 1.5, 2, 2.5, 3.5, 4, 9, 10, 16, 20, 25, 100, 1000],
  ...[1e-6, 1e-4, 4e-4, 1e-3, 1e-2, 0.1, 1023.5, 2048, 4194303.5, 8388607.5, 8388608, 16777216],
  // Points at which exp and its kin underflow and overflow, tanh, erf and sigmoid become 1, gelu and geluTanh vanish.
  ...[87.33655, 88.02969, 88.72284, 103.27893, 103.97208, 9.010913, 8.664339, 3.9192059, 16.635532, 17.32868],
  ...[5.5, 5.9, 10.05, 10.5, 13, 13.1, 13.8, 14.1, 14.4, 14.5],
  // sinh and cosh overflow, exp2 underflows and overflows; seams of arcs and of their kin.
  ...[89.415985, 88.7, 126, 127, 128, 149, 150, 0.4375, 0.6875, 1.1875, 2.4375, 0.41421356, 2.4142135],
];

/** Zeros of the sine and the cosine, and the seams between the pieces into which kernels cut their arguments. */
const seams: readonly number[] = [
  ...Array.from({ length: 64 }, (_, k) => ((k + 1) * Math.PI) / 4),
  ...[100, 1000, 3819, 3820, 10_000, 65_536, 1e6, 1e9].map((k) => (k * Math.PI) / 2),
  ...Array.from({ length: 128 }, (_, k) => ((k + 1) * Math.LN2) / 2),
];

/** Enough neighbours of a number to show whether a function rises from each to the next. */
const windowLength = 48;

/**
 * Returns arguments from every binade of a type, of either sign: its first and last number and others between.
 * There are more of them where functions bend, near 1, and around landmarks, seams and the ends of declared ranges;
 * also some windows of consecutive numbers, and subnormal ones if asked for. In ascending order, each once.
 */
export function stratified(
  dtype: FloatType,
  ranges: readonly UnitsRange[],
  withSubnormals: boolean,
  seed: number,
): Float64Array {
  const next = random(seed);
  const [lowest, highest] = exponents[dtype];
  const last = 2 - 2 ** -digits[dtype];
  const found = new Set<number>([0]);
  const add = (x: number): void => {
    const rounded = roundTo(dtype, x);
    const isSubnormal = Math.abs(rounded) < 2 ** lowest;
    if (Number.isFinite(rounded) && (!isSubnormal || withSubnormals)) found.add(rounded).add(-rounded);
  };
  const around = (x: number, reach: number): void => {
    const rounded = Math.abs(roundTo(dtype, x));
    for (let step = -reach; step <= reach; step++) add(neighbour(dtype, rounded, step));
  };
  for (let exponent = lowest; exponent <= highest; exponent++) {
    // One from each of equal parts; the first number of the binade, and its last one.
    const count = exponent >= -8 && exponent < 8 ? 48 : 6;
    for (let i = 0; i < count; i++) add(2 ** exponent * (1 + (i === 0 ? 0 : (i + next()) / count)));
    add(2 ** exponent * last);
  }
  for (let exponent = 1; exponent <= digits[dtype]; exponent++)
    for (const sign of [1, -1]) for (let i = 0; i < 4; i++) add(1 + sign * 2 ** -exponent * (1 + next()));
  for (const x of landmarks) around(x, 2);
  for (const x of seams) around(x, 1);
  for (const { below } of ranges) if (below !== undefined) around(below, 2);
  for (let i = 0; i < 8; i++) {
    const exponent = i < 6 ? -6 + 12 * next() : lowest + (highest - lowest) * next();
    around(2 ** exponent, windowLength / 2);
  }
  if (withSubnormals)
    for (let exponent = lowest - digits[dtype]; exponent < lowest; exponent++)
      for (let i = 0; i < 3; i++) add(2 ** exponent * (1 + next()));
  return Float64Array.from(found).sort();
}

export interface Pairs {
  readonly a: Float64Array;
  readonly b: Float64Array;
}

/** First operands from every binade, either sign, and second ones that spread the results over all binades. */
export function stratifiedPairs(kind: ArithmeticKind, dtype: FloatType, seed: number): Pairs {
  const next = random(seed);
  const [lowest, highest] = exponents[dtype];
  const sign = () => (next() < 0.5 ? -1 : 1);
  const a: number[] = [];
  const b: number[] = [];
  const add = (first: number, second: number): void => {
    const x = roundTo(dtype, first);
    const y = roundTo(dtype, second);
    const isNormal = (z: number) => z === 0 || (Math.abs(z) >= 2 ** lowest && Number.isFinite(z));
    if (!isNormal(x) || !isNormal(y)) return;
    a.push(x);
    b.push(y);
  };
  /** The desired exponent of the result, with a fraction. */
  const target = () => lowest + (highest + 1 - lowest) * next();
  for (let exponent = lowest; exponent <= highest; exponent++)
    for (let i = 0; i < 12; i++) {
      const size = 2 ** exponent * (1 + (i === 0 ? 0 : next()));
      for (const x of [size, -size]) add(x, binaryEntries[kind].second(x, target, next, i));
    }
  if (kind === "pow") {
    // Near 1, small errors of the logarithm are multiplied by large exponents.
    for (let exponent = 1; exponent <= digits[dtype]; exponent++)
      for (let i = 0; i < 16; i++) {
        const x = roundTo(dtype, 1 + sign() * 2 ** -exponent * (1 + next()));
        if (x > 0 && x !== 1) add(x, target() / Math.log2(x));
      }
  }
  return { a: Float64Array.from(a), b: Float64Array.from(b) };
}
