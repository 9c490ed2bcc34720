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
 *
 * If A may be rounded, X has one part: u is 2^(E - 14), and |X| <= 2^15, with 2^15 itself lowered to 2^15 - 1 so that it fits. X is off by less
 * than 2^-15 of the largest |x| either way, and sums are below 2^30 again. A block is not held by these if its largest number is infinite or NaN, 2^101
 * or more, or below 2^-60 and not 0.
 */

/** Parts of a whole number: one if A may be rounded. */
export type Parts = 1 | 2;

/** Bits of X, without its sign. */
const wholeBits: Readonly<Record<Parts, number>> = { 1: 15, 2: 30 };

/** Largest magnitudes whose exponents are outside of these are taken for the nearest of them, or not at all. */
const exponents = { least: -60, most: 100 } as const;

/**
 * A block of A in memory: what is known of it, and then its parts. First u (f32), and whether the block is held (i32); then the sums of
 * each part, and the same times the zero point of weights that are stored without one.
 */
export const blockFacts = { unit: 0, held: 4, sums: 8, sumsTimesMiddle: 16, bytes: 32 } as const;

/** Bytes of a number. */
export function numberBytes(parts: Parts): number {
  return 2 * parts;
}

/** Bytes of a row of blocks of `block` numbers. */
export function splitBytes(blocks: number, block: number, parts: Parts): number {
  return blocks * (blockFacts.bytes + block * numberBytes(parts));
}

/** Blocks that one chunk splits. */
export const splitBlocks = 64;

const types = {
  /** f32, in whole blocks. */
  input: "i32",
  /**
   * Blocks as `blockFacts` says. The numbers of a unit are those at even places and then those at odd ones, and of either the high parts and
   * then the low ones.
   */
  output: "i32",
  blocks: "i32",
  units: "i32",
  /** The zero point of weights that are stored without one. */
  middle: "i32",
  /** The least |X| of numbers that are rounded, if there are two parts. */
  least: "f32",
} as const;

export type SplitTypes = typeof types;

/** Longer sums would allow more; but a loss of 2^-16 of x is enough, and such blocks are rare. */
const mostTerms = 256;

/** Returns the least |X| of numbers that are rounded, for sums of k products. */
export function leastRounded(k: number): number {
  return 2 ** 23 / Math.min(k, mostTerms);
}

export function splitKernel(parts: Parts): Kernel<SplitTypes> {
  return defineKernel<SplitTypes>({
    name: `quantized_gemm_split_${parts}`,
    parameters: types,
    emit(f, { parameters, chunk }) {
      const { blocks, units, middle, least } = parameters;
      const begin = f.let(i32.mul(chunk, splitBlocks));
      const count = f.let(i32.minU(i32.sub(blocks, begin), splitBlocks));
      const first = f.let(i32.mul(i32.mul(begin, units), unitWeights));
      const at = f.let(i32.add(parameters.input, i32.mul(first, 4)));
      const own = i32.add(i32.mul(first, numberBytes(parts)), i32.mul(begin, blockFacts.bytes));
      const to = f.let(i32.add(parameters.output, own));
      const magnitude = f.let(i32x4.const(0x7fffffff));
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
        const unit = f.let(i32.sub(exponent, (wholeBits[parts] - 1) << 23));
        const unitOfAll = f.let(i32x4.splat(unit));
        const inverse = f.let(i32x4.splat(i32.sub(exponentBits(0) * 2, unit)));
        const factAt = f.let(to);
        f.add(to, blockFacts.bytes);
        const held = f.let(v128.not(i32x4.const(0)));
        const sums = Array.from({ length: parts }, () => f.let(i32x4.const(0)));
        f.forRange(0, units, () => {
          const wholes = [0, 1, 2, 3].map((i) => {
            const x = f.let(v128.load(at, 16 * i));
            const rounded = f.let(f32x4.nearest(f32x4.mul(x, inverse)));
            if (parts === 1) return f.let(i32x4.minS(i32x4.truncSatF32x4S(rounded), i32x4.const(0x7fff)));
            // x / u may be below the normal numbers, but u X never is.
            const isExact = f32x4.eq(f32x4.mul(rounded, unitOfAll), x);
            const isHeld = v128.or(isExact, f32x4.ge(f32x4.abs(rounded), leasts));
            f.set(held, v128.and(held, isHeld));
            return f.let(i32x4.truncSatF32x4S(rounded));
          });
          for (const [part, vectors] of partsOf(f, wholes, parts).entries()) {
            for (const vector of vectors) f.set(sums[part]!, i32x4.add(sums[part]!, vector));
            const [v0, v1, v2, v3] = vectors as [Local<"v128">, Local<"v128">, Local<"v128">, Local<"v128">];
            const [a, b] = [f.let(i16x8.narrowI32x4S(v0, v1)), f.let(i16x8.narrowI32x4S(v2, v3))];
            for (const first of [0, 1] as const)
              f.store(to, i8x16.shuffle(everyOther(first), a, b), 16 * (first * parts + part));
          }
          f.add(at, 4 * unitWeights);
          f.add(to, numberBytes(parts) * unitWeights);
        });
        f.store(factAt, unit, blockFacts.unit);
        for (const [part, vector] of sums.entries()) {
          const sum = f.let(overLanes(f, vector, i32x4.add));
          f.store(factAt, sum, blockFacts.sums + 4 * part);
          f.store(factAt, i32.mul(sum, middle), blockFacts.sumsTimesMiddle + 4 * part);
        }
        const isSmall = i32.ltS(largest, exponentBits(exponents.most + 1));
        const isHeld =
          parts === 1
            ? i32.or(i32.eqz(largest), i32.geS(largest, exponentBits(exponents.least)))
            : i32x4.allTrue(held);
        f.store(factAt, i32.and(isHeld, isSmall), blockFacts.held);
      });
    },
  });
}

/** The parts of vectors of whole numbers: the high ones and then the low ones, or the numbers themselves. */
function partsOf(
  f: FunctionBuilder,
  wholes: readonly Local<"v128">[],
  parts: Parts,
): readonly (readonly Local<"v128">[])[] {
  if (parts === 1) return [wholes];
  const half = f.let(i32x4.const(0x8000));
  const high = wholes.map((whole) => f.let(i32x4.shrS(i32x4.add(whole, half), 16)));
  const low = wholes.map((whole, i) => f.let(i32x4.sub(whole, i32x4.shl(high[i]!, 16))));
  return [high, low];
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
