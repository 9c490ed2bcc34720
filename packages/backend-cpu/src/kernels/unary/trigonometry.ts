import {
  type FunctionBuilder,
  f32x4,
  f64,
  f64x2,
  i32,
  i32x4,
  type Local,
  shuffle32,
  type VectorFunction,
  v128,
} from "../../wasm/index.js";
import {
  demote,
  promote,
  roundingBias,
  roundingBias64,
  sharedConstants,
  sineAndCosine,
  type Vector,
  type VectorLocal,
} from "../math/index.js";

/** 2 / pi = twoOverPi / 2^256 */
const twoOverPi = 0xa2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561n;

/**
 * pi / 2 in parts. Of the first three, multiples by n <= 2^11 are exact in f32; those of the first two are multiples of
 * 2^-24, as |x| is if n is not 0, so that their differences from it are exact as well.
 */
const halfPi = [1.57080078125, -4.470348358154297e-6, 1.5894329408183694e-8, -1.074634630414406e-12] as const;

/** Up to here n is at most 2^11. */
const usualLimit = 3216;

/** The same in f64, the first two with 26 significant bits: their multiples by n < 2^27 are exact. */
const halfPi64 = [1.5707963109016418, 1.5893254712295857e-8, 6.123233995736766e-17] as const;

/** From here on multiples of pi / 2 have too many bits for that. */
const huge = 2 ** 27;

/** Bytes of scratch that `sine` and `cosine` use. */
export const trigonometryScratchBytes = 128;

interface Reduced {
  /** |x| less the nearest multiple of pi / 2. */
  readonly angle: VectorLocal;
  /** Which multiple; the last two bits count. */
  readonly quadrant: VectorLocal;
}

/**
 * Range reduction of |x| after Cody and Waite ("Software Manual for the Elementary Functions", 1980): the differences
 * from exact multiples are exact, until they are as small as the result. In f32; if some lane is above the limit, that
 * one in f64. What the third difference loses is added to the fourth part: otherwise both would be rounded to the place of
 * the angle, and sin(2023.1934814453125) be 2.2 units off.
 */
function rangeReduction(f: FunctionBuilder, scratch: Local<"i32">): (magnitude: VectorLocal) => Reduced {
  const [first, second, third, fourth] = halfPi.map((part) => f.let(f32x4.const(part))) as [
    VectorLocal,
    VectorLocal,
    VectorLocal,
    VectorLocal,
  ];
  const perQuadrant = f.let(f32x4.const(2 / Math.PI));
  const bias = f.let(f32x4.const(roundingBias));
  const limit = f.let(f32x4.const(usualLimit));
  const reduceLarge = largeRangeReduction(f, scratch);
  return (magnitude) => {
    const quadrant = f.let(f.multiplyAdd(magnitude, perQuadrant, bias));
    const n = f.let(f32x4.sub(quadrant, bias));
    const exact = f.let(f.multiplySubtract(n, second, f.multiplySubtract(n, first, magnitude)));
    const small = f.let(f32x4.mul(n, third));
    const near = f.let(f32x4.sub(exact, small));
    const rest = f.multiplySubtract(n, fourth, f32x4.sub(f32x4.sub(exact, near), small));
    const angle = f.let(f32x4.add(near, rest));
    const isLarge = f.let(f32x4.gt(magnitude, limit));
    f.if(i32x4.bitmask(isLarge), () => {
      const large = reduceLarge(magnitude);
      f.set(angle, f.choose(large.angle, angle, isLarge));
      f.set(quadrant, f.choose(large.quadrant, quadrant, isLarge));
    });
    return { angle, quadrant };
  };
}

/**
 * The same in f64, up to 2^27. Beyond, after the idea of Payne and Hanek ("Radian reduction for trigonometric
 * functions", 1983): whole turns are dropped from 2 / pi before multiplying. Its constants are not worth a place in
 * locals.
 */
function largeRangeReduction(f: FunctionBuilder, scratch: Local<"i32">): (magnitude: VectorLocal) => Reduced {
  return (magnitude) => {
    const bias = f.let(f64x2.const(roundingBias64));
    const halves = promote(f, magnitude).map((x) => {
      const biased = f.let(f64x2.add(f64x2.mul(x, f64x2.const(2 / Math.PI)), bias));
      const n = f.let(f64x2.sub(biased, bias));
      const minus = (sum: Vector, part: number): Vector => f64x2.sub(sum, f64x2.mul(n, f64x2.const(part)));
      return { x, biased, rest: f.let(halfPi64.reduce(minus, x)) };
    });
    f.if(v128.anyTrue(f32x4.ge(magnitude, f32x4.const(huge))), () => {
      emitTurns(f, scratch, magnitude);
      for (const [i, { x, biased, rest }] of halves.entries()) {
        const [high, low, scale] = [16, 48, 80].map((at) => v128.load(scratch, at + 16 * i)) as [
          Vector,
          Vector,
          Vector,
        ];
        const isHuge = f.let(f64x2.ge(x, f64x2.const(huge)));
        const scaled = f.let(f64x2.mul(x, scale));
        // `high` has 29 bits and x 24, so this product is exact; the sum has the fraction of a turn.
        const quadrants = f.let(f64x2.mul(scaled, high));
        const whole = f.let(f64x2.nearest(quadrants));
        const fraction = f.let(f64x2.add(f64x2.sub(quadrants, whole), f64x2.mul(scaled, low)));
        const carry = f.let(f64x2.nearest(fraction));
        const angle = f64x2.mul(f64x2.sub(fraction, carry), f64x2.const(Math.PI / 2));
        f.set(rest, f.choose(angle, rest, isHuge));
        const n = f64x2.add(f64x2.add(whole, carry), bias);
        f.set(biased, f.choose(n, biased, isHuge));
      }
    });
    const [low, high] = halves as [(typeof halves)[0], (typeof halves)[0]];
    return {
      angle: f.let(demote(low.rest, high.rest)),
      quadrant: f.let(shuffle32([0, 2, 4, 6], low.biased, high.biased)),
    };
  };
}

/**
 * For each lane x with 2^(23 + e) <= x < 2^(31 + e), e a multiple of 8, so that x is a whole number
 * of 2^e: stores 2^e 2/pi mod 4 in two parts (f64, at scratch + 16 and + 48) and 2^-e (at + 80).
 */
function emitTurns(f: FunctionBuilder, scratch: Local<"i32">, magnitude: Vector): void {
  f.store(scratch, magnitude);
  const byte = f.local("i32");
  f.set(byte, 0);
  f.forLocal(
    byte,
    16,
    () => {
      // 150 is the biased exponent of 2^23.
      const step = f.let(i32.shrS(i32.sub(i32.shrU(i32.load(i32.add(scratch, byte)), 23), 150), 3));
      const at = f.let(i32.add(scratch, i32.shl(byte, 1)));
      for (let multiple = 0; multiple <= 13; multiple++) {
        const modulus = 1n << 258n;
        const turns = (twoOverPi << BigInt(8 * multiple)) % modulus;
        const high = turns >> 229n;
        const low = (turns - (high << 229n)) >> 176n;
        f.if(i32.eq(step, multiple), () => {
          f.store(at, f64.const(Number(high) * 2 ** -27), 16);
          f.store(at, f64.const(Number(low) * 2 ** -80), 48);
          f.store(at, f64.const(2 ** (-8 * multiple)), 80);
        });
      }
    },
    { step: 4 },
  );
}

function sineOrCosine(f: FunctionBuilder, scratch: Local<"i32">, cosine: boolean): VectorFunction {
  const { sign } = sharedConstants(f);
  const unit = f.let(i32x4.const(1));
  const reduce = rangeReduction(f, scratch);
  const near = sineAndCosine(f);
  return (argument) => {
    const x = f.let(argument);
    const { angle, quadrant } = reduce(f.let(f32x4.abs(x)));
    // cos x = sin(x + pi / 2)
    const turned = f.let(cosine ? i32x4.add(quadrant, unit) : quadrant);
    const { sine: sin, cosine: cos } = near(angle);
    const isOdd = i32x4.eq(v128.and(turned, unit), unit);
    const flipped = v128.and(i32x4.shl(turned, 30), sign);
    // sin(-x) = -sin x; cos(-x) = cos x
    const negated = cosine ? flipped : v128.xor(flipped, v128.and(x, sign));
    return f.let(v128.xor(f.choose(cos, sin, isOdd), negated));
  };
}

/** sin x / cos x, or -cos x / sin x after an odd number of quarter turns. */
export function tangent(f: FunctionBuilder, scratch: Local<"i32">): VectorFunction {
  const { sign } = sharedConstants(f);
  const reduce = rangeReduction(f, scratch);
  const near = sineAndCosine(f);
  return (argument) => {
    const x = f.let(argument);
    const { angle, quadrant } = reduce(f.let(f32x4.abs(x)));
    const parts = near(angle);
    const [sin, cos] = [f.let(parts.sine), f.let(parts.cosine)];
    const odd = f.let(i32x4.shl(quadrant, 31));
    const isOdd = f.let(i32x4.shrS(odd, 31));
    const ratio = f32x4.div(f.choose(cos, sin, isOdd), f.choose(sin, cos, isOdd));
    return f.let(v128.xor(ratio, v128.xor(odd, v128.and(x, sign))));
  };
}

export function sine(f: FunctionBuilder, scratch: Local<"i32">): VectorFunction {
  return sineOrCosine(f, scratch, false);
}

export function cosine(f: FunctionBuilder, scratch: Local<"i32">): VectorFunction {
  return sineOrCosine(f, scratch, true);
}
