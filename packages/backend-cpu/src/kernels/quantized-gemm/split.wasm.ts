import type { QuantizedBits } from "@backplane/core";
import {
  type FunctionBuilder,
  f32x4,
  i8x16,
  i16x8,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";
import { defineKernel, type Kernel } from "../kernel.js";
import { unitWeights } from "./weights.js";

/*
 * Numbers of a row of A as whole numbers of 32 bits, so that products with weights can be summed by instructions for
 * numbers of 16 bits, exactly.
 *
 * The numbers of a block share a unit, a power of two u: x is taken as u X, with X = x / u rounded to a whole number. With 2^E
 * the power of two below the largest |x| of the block, u is 2^(E - 29), so that |X| <= 2^30. X has two parts of 16 bits:
 *
 *   X = 2^16 high + low,   -2^14 <= high <= 2^14,   -2^15 <= low < 2^15
 *
 * So the sums over a block of high * q and of low * q, with 0 <= q <= 255, are below 2^30 for 128 products, and none of the
 * whole-number steps rounds. The zero point z of the block comes in afterwards: sum of X (q - z) = sum of X q - z (sum of X).
 *
 * A block is held by these if for each of its x either u X = x or |X| >= 2^23 / min(k, 256). All |x| >= 2^-7 of the largest one are of the
 * first kind, and so are zeros. For the second kind X is off by half a unit or less: by at most min(k, 256) 2^-24 of x, half of what the error
 * bound of the operation allows. The rest of its steps round k / 32 + 6 times or less: see `wholeDotFunction`. A block that is not
 * held, for example one that has a NaN, an infinity, or numbers both near 1 and near 1e-10, is multiplied in f32.
 */

/** Bits of X, without its sign. */
const wholeBits = 30;

/** Largest magnitudes whose exponents are outside of these are taken for the nearest of them, or not at all. */
const exponents = { least: -60, most: 100 } as const;

/**
 * A block of A in memory: what is known of it, and then its parts. First u (f32); then the sums of the high and of the low parts, the
 * same times the zero point of weights that are stored without one, and whether the block is held (i32).
 */
export const blockFacts = {
  unit: 0,
  high: 4,
  low: 8,
  highTimesMiddle: 12,
  lowTimesMiddle: 16,
  held: 20,
  bytes: 32,
} as const;

/** Bytes of the parts of a number. */
export const partBytes = 4;

/** Bytes of a row of blocks of `block` numbers. */
export function splitBytes(blocks: number, block: number): number {
  return blocks * (blockFacts.bytes + block * partBytes);
}

/** Blocks that one chunk splits. */
export const splitBlocks = 64;

const types = {
  /** f32, in whole blocks. */
  input: "i32",
  /**
   * Blocks as `blockFacts` says. For each 8 numbers the high parts and then the low ones. For weights of 4 bits, which lie two to
   * a byte, the numbers of a unit are those at even places and then those at odd ones.
   */
  output: "i32",
  blocks: "i32",
  units: "i32",
  /** The least |X| of numbers that are rounded. */
  least: "f32",
} as const;

export type SplitTypes = typeof types;

/** Longer sums would allow more; but a loss of 2^-16 of x is enough, and such blocks are rare. */
const mostTerms = 256;

/** Returns the least |X| of numbers that are rounded, for sums of k products. */
export function leastRounded(k: number): number {
  return 2 ** 23 / Math.min(k, mostTerms);
}

export function splitKernel(bits: QuantizedBits): Kernel<SplitTypes> {
  return defineKernel<SplitTypes>({
    name: `quantized_gemm_split_${bits}_bits`,
    parameters: types,
    emit(f, { parameters, chunk }) {
      const { blocks, units, least } = parameters;
      const begin = f.let(i32.mul(chunk, splitBlocks));
      const count = f.let(i32.minU(i32.sub(blocks, begin), splitBlocks));
      const first = f.let(i32.mul(i32.mul(begin, units), partBytes * unitWeights));
      const at = f.let(i32.add(parameters.input, first));
      const to = f.let(i32.add(parameters.output, i32.add(first, i32.mul(begin, blockFacts.bytes))));
      const magnitude = f.let(i32x4.const(0x7fffffff));
      const half = f.let(i32x4.const(0x8000));
      const leasts = f.let(f32x4.splat(least));
      f.forRange(0, count, () => {
        const most = f.let(i32x4.const(0));
        const place = f.let(at);
        f.forRange(0, units, () => {
          for (let i = 0; i < 4; i++)
            f.set(most, i32x4.maxS(most, v128.and(v128.load(place, 16 * i), magnitude)));
          f.add(place, 4 * unitWeights);
        });
        const largest = f.let(overLanes(f, most, i32x4.maxS));
        const exponent = f.let(i32.and(largest, 0xff << 23));
        f.set(exponent, i32.minS(exponent, exponentBits(exponents.most)));
        f.set(exponent, i32.maxS(exponent, exponentBits(exponents.least)));
        const unit = f.let(i32.sub(exponent, (wholeBits - 1) << 23));
        const unitOfAll = f.let(i32x4.splat(unit));
        const inverse = f.let(i32x4.splat(i32.sub(exponentBits(0) * 2, unit)));
        const factAt = f.let(to);
        f.add(to, blockFacts.bytes);
        const held = f.let(v128.not(i32x4.const(0)));
        const sums = [f.let(i32x4.const(0)), f.let(i32x4.const(0))] as const;
        f.forRange(0, units, () => {
          const wholes = [0, 1, 2, 3].map((i) => {
            const x = f.let(v128.load(at, 16 * i));
            const rounded = f.let(f32x4.nearest(f32x4.mul(x, inverse)));
            // x / u may be below the normal numbers, but u X never is.
            const isExact = f32x4.eq(f32x4.mul(rounded, unitOfAll), x);
            const isHeld = v128.or(isExact, f32x4.ge(f32x4.abs(rounded), leasts));
            f.set(held, v128.and(held, isHeld));
            return f.let(i32x4.truncSatF32x4S(rounded));
          });
          const high = wholes.map((whole) => f.let(i32x4.shrS(i32x4.add(whole, half), 16)));
          const low = wholes.map((whole, i) => f.let(i32x4.sub(whole, i32x4.shl(high[i]!, 16))));
          for (const [part, vectors] of [high, low].entries()) {
            for (const vector of vectors) f.set(sums[part]!, i32x4.add(sums[part]!, vector));
            const [v0, v1, v2, v3] = vectors as [Local<"v128">, Local<"v128">, Local<"v128">, Local<"v128">];
            const [a, b] = [f.let(i16x8.narrowI32x4S(v0, v1)), f.let(i16x8.narrowI32x4S(v2, v3))];
            const orders = {
              8: [a, b],
              4: [i8x16.shuffle(everyOther(0), a, b), i8x16.shuffle(everyOther(1), a, b)],
            };
            for (const [i, eight] of orders[bits].entries()) f.store(to, eight, 32 * i + 16 * part);
          }
          f.add(at, 4 * unitWeights);
          f.add(to, partBytes * unitWeights);
        });
        f.store(factAt, unit, blockFacts.unit);
        for (const [i, part] of (["high", "low"] as const).entries()) {
          const sum = f.let(overLanes(f, sums[i]!, i32x4.add));
          f.store(factAt, sum, blockFacts[part]);
          f.store(factAt, i32.mul(sum, 2 ** (bits - 1)), blockFacts[`${part}TimesMiddle`]);
        }
        const inRange = i32.ltS(largest, exponentBits(exponents.most + 1));
        f.store(factAt, i32.and(i32x4.allTrue(held), inRange), blockFacts.held);
      });
    },
  });
}

/** The bits of the f32 2^exponent. */
function exponentBits(exponent: number): number {
  return (127 + exponent) << 23;
}

/** Lanes of 16 bits from two vectors: those at even places, or those at odd ones. */
function everyOther(first: 0 | 1): readonly number[] {
  return Array.from({ length: 16 }, (_, i) => 4 * (i >> 1) + 2 * first + (i & 1));
}

/** The lanes of 32 bits combined. */
function overLanes(
  f: FunctionBuilder,
  vector: Local<"v128">,
  combine: (a: Value<"v128">, b: Value<"v128">) => Value<"v128">,
): Value<"i32"> {
  const pairs = f.let(combine(vector, shuffle32([2, 3, 0, 1], vector, vector)));
  return i32x4.extractLane(0, combine(pairs, shuffle32([1, 0, 3, 2], pairs, pairs)));
}
