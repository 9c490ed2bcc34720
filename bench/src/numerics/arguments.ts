import { type ArithmeticKind, decodeFloat16, type FloatType } from "@backplane/core";
import { generator } from "../data.js";
import { rounded } from "./device.js";
import { format } from "./format.js";

const spread: Readonly<Record<FloatType, (perExponent: number) => Float32Array>> = {
  f32: spreadSingles,
  f16: everyHalf,
};

/** Arguments for functions of one number: all of f16, a selection of f32. */
export function unaryArguments(dtype: FloatType, perExponent: number): Float32Array {
  return spread[dtype](perExponent);
}

/** Every number of f16 but infinities and NaN. */
function everyHalf(): Float32Array {
  return decodeFloat16(
    Array.from({ length: 0x10000 }, (_, i) => i).filter((half) => (half & 0x7c00) < 0x7c00),
  );
}

/** Intervals, besides those around 0, in which functions bend or fall to 0: exp and its kin, gelu and its. */
const bends: readonly (readonly [from: number, to: number])[] = [
  [-110, -80],
  [80, 92],
  [-15, -2],
];

/**
 * Returns `perExponent` numbers of either sign from each exponent of f32, including subnormal ones; sixteen times
 * as many from each exponent in which functions bend (2^-8 to 2^8), and from `bends`; as many at each distance from
 * 1, down to its neighbours, where the logarithm vanishes; and the first 50,000 multiples of pi / 2, each with both
 * its neighbours, at which the sine and the cosine need an accurate pi, and the closest of all to such a multiple.
 */
function spreadSingles(perExponent: number): Float32Array {
  const next = generator(1);
  const values: number[] = [0, -0];
  const add = (exponent: number, count: number): void => {
    for (let i = 0; i < count; i++) {
      // One from each of `count` equal parts, the first number of the exponent among them.
      const fraction = i === 0 ? 0 : Math.floor(((i + next()) / count) * 2 ** 23) / 2 ** 23;
      values.push(2 ** exponent * (1 + fraction), -(2 ** exponent) * (1 + fraction));
    }
  };
  for (let exponent = -149; exponent < -126; exponent++) add(exponent, Math.ceil(perExponent / 23));
  for (let exponent = -126; exponent <= 127; exponent++) add(exponent, perExponent);
  for (let exponent = -8; exponent < 8; exponent++) add(exponent, 16 * perExponent);
  for (const [from, to] of bends)
    for (let i = 0; i < 16 * perExponent; i++) values.push(from + (to - from) * next());
  for (let exponent = -24; exponent < -1; exponent++)
    for (let i = 0; i < perExponent; i++) {
      const distance = 2 ** exponent * (1 + (i === 0 ? 0 : next()));
      values.push(1 + distance, 1 - distance);
    }
  for (let k = 1; k <= 50_000; k++) {
    const multiple = Math.fround((k * Math.PI) / 2);
    const step = 2 ** (Math.floor(Math.log2(multiple)) - 23);
    for (const x of [multiple, multiple - step, multiple + step]) values.push(x, -x);
  }
  values.push(16367173 * 2 ** 72, -16367173 * 2 ** 72);
  return Float32Array.from(values);
}

/** Arguments for functions of two numbers. */
export function binaryArguments(
  dtype: FloatType,
  kind: ArithmeticKind,
  count: number,
): readonly [Float32Array, Float32Array] {
  return kind === "pow" ? powers(dtype, count) : pairs(dtype, count);
}

/** Both of ordinary size, or of any exponent, in turn. */
function pairs(dtype: FloatType, count: number): readonly [Float32Array, Float32Array] {
  const next = generator(2);
  const { lowest, largest } = format[dtype];
  const range = Math.log2(largest) - lowest;
  const draw = (i: number): number => {
    const sign = next() < 0.5 ? -1 : 1;
    return sign * (i % 2 === 0 ? 8 * next() : 2 ** (lowest + range * next()));
  };
  const values = () =>
    normal(
      dtype,
      Float64Array.from({ length: count }, (_, i) => draw(i)),
    );
  return [values(), values()];
}

/**
 * Bases of any exponent with exponents for which the power is in range; bases near 1, down to its neighbours,
 * with large ones; and whole exponents.
 */
function powers(dtype: FloatType, count: number): readonly [Float32Array, Float32Array] {
  const next = generator(3);
  const { digits, lowest, largest } = format[dtype];
  const range = Math.log2(largest) - lowest;
  const a = new Float64Array(count);
  const b = new Float64Array(count);
  for (let i = 0; i < count; i++) {
    const kind = i % 4;
    const near = (next() - 0.5) * 2 ** (-3 - digits * next());
    a[i] = kind === 0 ? 2 ** (lowest + range * next()) : kind === 1 ? 1 + near : 10 * next();
    const base = rounded(dtype, [a[i]!])[0]!;
    const reach = 1.05 * (-lowest / Math.max(Math.abs(Math.log2(base)), 2 ** -digits));
    b[i] = kind === 3 ? Math.round(8 * (next() - 0.5)) : Math.min(reach, largest) * (2 * next() - 1);
  }
  return [normal(dtype, a), normal(dtype, b)];
}

/** Rounds to the type; numbers that would not be normal become 1. */
function normal(dtype: FloatType, values: Float64Array): Float32Array {
  const smallest = 2 ** format[dtype].lowest;
  return rounded(dtype, values).map((value) =>
    Math.abs(value) >= smallest && Math.abs(value) <= format[dtype].largest ? value : 1,
  );
}
