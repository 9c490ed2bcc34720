import type { RandomKind, RandomType } from "@backplane/core";
import { type FunctionBuilder, f32x4, i32x4, type Local, v128 } from "../../wasm/index.js";
import { logarithm, sharedConstants, sineAndCosine, type Vector, type VectorLocal } from "../math/index.js";
import type { Blocks } from "./philox.wasm.js";

export interface DistributionParameters {
  readonly mean: Local<"f32">;
  readonly deviation: Local<"f32">;
  readonly threshold: Local<"i32">;
}

/** Makes elements of words: one of each word, at its place. */
export type Distribution = (
  f: FunctionBuilder,
  parameters: DistributionParameters,
  dtype: RandomType,
) => (words: Blocks) => readonly Vector[];

/** Bits that uniform numbers have. */
const uniformBits = { f32: 24, f16: 11 } as const;

export const distributions: Readonly<Record<RandomKind, Distribution>> = {
  bits: () => (words) => words,

  uniform(f, _parameters, dtype) {
    const bits = uniformBits[dtype as keyof typeof uniformBits];
    const unit = f.let(f32x4.const(2 ** -bits));
    return (words) => words.map((word) => f32x4.mul(f32x4.convertI32x4S(i32x4.shrU(word, 32 - bits)), unit));
  },

  normal(f, parameters) {
    const mean = f.let(f32x4.splat(parameters.mean));
    const deviation = f.let(f32x4.splat(parameters.deviation));
    const radius = radiusOf(f);
    const turn = turnOf(f);
    return ([a, b, c, d]) =>
      [
        [a, b],
        [c, d],
      ].flatMap(([first, second]) => {
        const scale = f.let(f32x4.mul(deviation, radius(first!)));
        const { cosine, sine } = turn(second!);
        return [cosine, sine].map((part) => f.let(f.multiplyAdd(scale, part, mean)));
      });
  },

  bernoulli(f, { threshold }) {
    const limit = f.let(i32x4.splat(threshold));
    const one = f.let(i32x4.const(1));
    return (words) => words.map((word) => v128.and(i32x4.ltU(word, limit), one));
  },
};

/**
 * sqrt(-2 ln u), u = (a + 1/2) / 2^32. The f32 nearest to u has few bits of 1 - u if u is close to 1. So from 1/2 on,
 * v = 1 - u is exact but for one rounding, and ln u = ln w - (v - (1 - w)) for w = 1 - v, rounded; the difference,
 * which should be divided by w, is no more than half a unit of w.
 */
function radiusOf(f: FunctionBuilder): (a: VectorLocal) => Vector {
  const log = logarithm(f);
  const { half, one } = sharedConstants(f);
  const unit = f.let(f32x4.const(2 ** -32));
  return (a) => {
    const isUpper = f.let(i32x4.shrS(a, 31));
    // 2^32 - 1 - a, for those.
    const whole = f32x4.convertI32x4S(v128.xor(a, isUpper));
    const v = f.let(f32x4.mul(f32x4.add(whole, half), unit));
    const complement = f.let(f32x4.sub(one, v));
    const lost = v128.and(f32x4.sub(v, f32x4.sub(one, complement)), isUpper);
    const minusLog = f.let(f32x4.sub(lost, log(f.choose(complement, v, isUpper))));
    return f32x4.sqrt(f32x4.add(minusLog, minusLog));
  };
}

/** Cosine and sine of 2 pi b / 2^32: whole quarter turns are taken from b, which is exact. */
function turnOf(
  f: FunctionBuilder,
): (b: VectorLocal) => { readonly cosine: VectorLocal; readonly sine: VectorLocal } {
  const near = sineAndCosine(f);
  const { sign } = sharedConstants(f);
  const eighth = f.let(i32x4.const(1 << 29));
  const unit = f.let(f32x4.const((2 * Math.PI) / 2 ** 32));
  const oneWord = f.let(i32x4.const(1));
  return (b) => {
    const quarters = f.let(i32x4.shrU(i32x4.add(b, eighth), 30));
    const rest = i32x4.sub(b, i32x4.shl(quarters, 30));
    const { sine, cosine } = near(f.let(f32x4.mul(f32x4.convertI32x4S(rest), unit)));
    const [sin, cos] = [f.let(sine), f.let(cosine)];
    const isOdd = f.let(i32x4.shrS(i32x4.shl(quarters, 31), 31));
    const signOf = (turns: Vector) => v128.and(i32x4.shl(turns, 30), sign);
    return {
      sine: f.let(v128.xor(f.choose(cos, sin, isOdd), signOf(quarters))),
      cosine: f.let(v128.xor(f.choose(sin, cos, isOdd), signOf(i32x4.add(quarters, oneWord)))),
    };
  };
}
