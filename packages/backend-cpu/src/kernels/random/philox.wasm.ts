import {
  type FunctionBuilder,
  i32x4,
  i64x2,
  type Local,
  shuffle32,
  type Value,
  v128,
} from "../../wasm/index.js";

type Vector = Value<"v128">;
type VectorLocal = Local<"v128">;
type Word = Local<"i32">;

/** The words of four blocks: the first ones of all in one vector, and so on. */
export type Blocks = readonly [VectorLocal, VectorLocal, VectorLocal, VectorLocal];

/** The key and the first counter, the lowest words first. */
export interface PhiloxParameters {
  readonly key0: Word;
  readonly key1: Word;
  readonly counter0: Word;
  readonly counter1: Word;
  readonly counter2: Word;
  readonly counter3: Word;
}

const rounds = 10;
const multipliers = [0xd2511f53, 0xcd9e8d57] as const;
const keySteps = [0x9e3779b9, 0xbb67ae85] as const;

/**
 * Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Returns a function of n, below
 * 2^30, that gives blocks n to n + 3 after the first one.
 */
export function philoxBlocks(f: FunctionBuilder, parameters: PhiloxParameters): (n: Word) => Blocks {
  const splat = (word: Word) => f.let(i32x4.splat(word));
  const constant = (word: number) => f.let(i32x4.const(word | 0));
  const [m0, m1] = [constant(multipliers[0]), constant(multipliers[1])];
  const [step0, step1] = [constant(keySteps[0]), constant(keySteps[1])];
  const [first0, first1] = [splat(parameters.key0), splat(parameters.key1)];
  const start = [parameters.counter0, parameters.counter1, parameters.counter2, parameters.counter3].map(
    splat,
  );
  const lanes = f.let(i32x4.const(0, 1, 2, 3));
  const zero = constant(0);

  /** The lower and the upper halves of products. */
  const product = (x: Vector, multiplier: Vector): readonly [low: VectorLocal, high: VectorLocal] => {
    const firstTwo = f.let(i64x2.extmulLowI32x4U(x, multiplier));
    const lastTwo = f.let(i64x2.extmulHighI32x4U(x, multiplier));
    return [
      f.let(shuffle32([0, 2, 4, 6], firstTwo, lastTwo)),
      f.let(shuffle32([1, 3, 5, 7], firstTwo, lastTwo)),
    ];
  };

  /** The counters: what overflows in one word counts one in the next. */
  const counters = (n: Word): Blocks => {
    const a = f.let(i32x4.add(start[0]!, i32x4.add(i32x4.splat(n), lanes)));
    // -1 in the lanes that overflow.
    let overflows = f.let(i32x4.ltU(a, start[0]!));
    const next = (word: Vector): VectorLocal => {
      const sum = f.let(i32x4.sub(word, overflows));
      overflows = f.let(v128.and(overflows, i32x4.eq(sum, zero)));
      return sum;
    };
    return [a, next(start[1]!), next(start[2]!), next(start[3]!)];
  };

  return (n) => {
    let [a, b, c, d] = counters(n);
    let [k0, k1] = [first0, first1];
    for (let round = 0; round < rounds; round++) {
      if (round > 0) {
        k0 = f.let(i32x4.add(k0, step0));
        k1 = f.let(i32x4.add(k1, step1));
      }
      const [low0, high0] = product(a, m0);
      const [low1, high1] = product(c, m1);
      a = f.let(v128.xor(v128.xor(high1, b), k0));
      c = f.let(v128.xor(v128.xor(high0, d), k1));
      [b, d] = [low1, low0];
    }
    return [a, b, c, d];
  };
}
