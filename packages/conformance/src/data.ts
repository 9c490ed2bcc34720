import {
  elementTypes,
  type FloatType,
  float16FromBits,
  float16ToBits,
  type IntegerType,
} from "@backplane/core";
import { floatFormats, storages } from "./elements.js";

/**
 * How test data is drawn. `uniform`: [-1, 1). `normal`: standard normal. `wide`: magnitudes over many powers
 * of two. `sparse`: half of it zeros. `cancelling`: near 1 with alternating signs, so that sums are far
 * smaller than their terms.
 */
export type Distribution = "uniform" | "normal" | "wide" | "sparse" | "cancelling";

export const distributions: readonly Distribution[] = ["uniform", "normal", "wide", "sparse", "cancelling"];

/** Returns a generator of uniform numbers in [0, 1) with 32 random bits, the same for the same seed (mulberry32). */
export function random(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), bits | 61)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns the nearest number that the element type can hold. */
export function roundTo(dtype: FloatType, value: number): number {
  return rounders[dtype](value);
}

const rounders: Readonly<Record<FloatType, (value: number) => number>> = {
  f32: Math.fround,
  f16: (value) => float16FromBits(float16ToBits(value)),
};

/** Returns test data that the element type holds exactly. It has no subnormal numbers; other laws cover those. */
export function draw(
  distribution: Distribution,
  count: number,
  seed: number,
  dtype: FloatType,
): Float64Array<ArrayBuffer> {
  const next = random(seed);
  const values = new Float64Array(count);
  const drawOne = drawers[distribution]();
  const { smallestNormal } = storages[dtype];
  const { roundNormal } = floatFormats[dtype];
  for (let i = 0; i < count; i++) {
    const value = drawOne(next, i, dtype);
    values[i] = Math.abs(value) < smallestNormal ? 0 : roundNormal(value);
  }
  return values;
}

const wideExponents: Readonly<Record<FloatType, readonly [lowest: number, highest: number]>> = {
  f32: [-12, 12],
  f16: [-8, 2],
};

type DrawOne = (next: () => number, index: number, dtype: FloatType) => number;

const drawers: Readonly<Record<Distribution, () => DrawOne>> = {
  uniform: () => (next) => 2 * next() - 1,
  normal: drawNormal,
  wide: () => (next, _index, dtype) => {
    const [lowest, highest] = wideExponents[dtype];
    const sign = next() < 0.5 ? -1 : 1;
    return sign * (1 + next()) * 2 ** Math.floor(lowest + next() * (highest - lowest + 1));
  },
  sparse: () => (next) => (next() < 0.5 ? 0 : 2 * next() - 1),
  cancelling: () => (next, index) => (index % 2 === 0 ? 1 : -1) * (1 + next() / 64),
};

/**
 * Box and Muller: numbers come in pairs, and the second is kept for the next call. 1 - u keeps the logarithm finite.
 */
function drawNormal(): DrawOne {
  let second = Number.NaN;
  return (next, index) => {
    if (index % 2 === 1) return second;
    const radius = Math.sqrt(-2 * Math.log(1 - next()));
    const angle = 2 * Math.PI * next();
    second = radius * Math.sin(angle);
    return radius * Math.cos(angle);
  };
}

/** Returns whole numbers from -limit to limit. */
export function drawIntegers(limit: number, count: number, seed: number): Float64Array<ArrayBuffer> {
  const next = random(seed);
  return new Float64Array(count).map(() => Math.floor(next() * (2 * limit + 1)) - limit);
}

/**
 * Returns the largest whole number L for which sums of `terms` products of numbers up to L, times `factor`, are exact
 * in every order, with or without fused multiply-adds: factor * terms * L^2 < 2^24, or 2^11 for results in f16.
 */
export function exactLimit(terms: number, factor: number, dtype: FloatType): number {
  const limit = Math.floor(
    Math.sqrt((floatFormats[dtype].exactUpTo - 1) / (Math.max(terms, 1) * Math.max(factor, 1))),
  );
  return Math.min(Math.max(limit, 1), 512);
}

/** Returns numbers of all sizes: floats that are `wide`, or any integers of the type. */
export function drawOfAllSizes(
  dtype: FloatType | IntegerType,
  count: number,
  seed: number,
): Float64Array<ArrayBuffer> {
  const { range } = elementTypes[dtype];
  if (range === undefined) return draw("wide", count, seed, dtype as FloatType);
  const [least, most] = range;
  const next = random(seed);
  return new Float64Array(count).map(() => Math.floor(least + next() * (most - least + 1)));
}

/** Numbers from the least to the largest, next to which lie others. */
export function extremesOf(dtype: FloatType | IntegerType): readonly number[] {
  const { range } = elementTypes[dtype];
  if (range === undefined) {
    const { largest } = floatFormats[dtype as FloatType];
    return [-largest, -1, -0, 0, 0.5, largest];
  }
  const [least, most] = range;
  return [least, least + 1, 0, 1, 2 ** 24, 2 ** 24 + 1, most - 1, most];
}
