import type { Region } from "../../region.js";
import { defineOperation, Fill, type Operation } from "../operation.js";
import type { Reader } from "../reader.js";
import type { ArgumentsOf } from "../table.js";

const table = {
  /** w: the word of the element; see `RandomArguments`. */
  kind: {
    role: "kind",
    kinds: {
      bits: "w, a u32",
      uniform:
        "the upper bits of w, as many as the type has significant ones (24 or 11), as a fraction in [0, 1)",
      normal: "mean + deviation z, z of the standard normal distribution",
      bernoulli: "1 if w < 2^32 probability, else 0, a u8",
    },
  },
  /** Elements of the output, which is contiguous. */
  count: { role: "extent" },
  output: { role: "writes", shape: "count" },
  /** Chooses one of 2^64 sequences. */
  seed: { role: "unsigned", bits: 64 },
  /** The place in the sequence of the first element. */
  offset: { role: "unsigned", bits: 130, default: 0 },
  /** Of normal. */
  mean: { role: "factor", otherwise: "0" },
  /** Of normal: the standard deviation, at least 0. */
  deviation: { role: "factor", otherwise: "1" },
  /** Of bernoulli, from 0 to 1. 2^32 probability is rounded to a whole number. */
  probability: { role: "factor", otherwise: "1/2" },
  /** Of the output; u32 for bits, u8 for bernoulli, f32 or f16 for the others. */
  dtype: { role: "elementType", types: ["f32", "f16", "u32", "u8"], otherwise: "the first one of the kind" },
} as const;

/**
 * output[i] = kind(word offset + i of the sequence of the seed).
 *
 * The sequence is that of Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as
 * 1, 2, 3", 2011), with the seed as its key: word j is word j mod 4 of the block that the counter
 * floor(j / 4) gives. A counter has 128 bits, so that there are 2^130 words; the first follows the last. So a
 * sequence can be cut anywhere: an element depends on the seed and on its own place, offset + i, alone. Calls
 * that are to be independent need other seeds, or ranges of one sequence that do not overlap, such as those
 * from `BigInt(stream) << 66n` on.
 *
 * bits, uniform and bernoulli give the same bits on every backend. normal pairs the words at places 2j and
 * 2j + 1, a and b, as G. Box and M. Muller do ("A note on the generation of random normal deviates", 1958):
 * z is r cos t at 2j and r sin t at 2j + 1, with r = sqrt(-2 ln u), u = (a + 1/2) / 2^32 and
 * t = 2 pi b / 2^32. So |z| is at most 6.77. It may be off by 16 units of 2^-23 of itself, before mean is added;
 * f16 is computed in f32 and rounded once.
 */
export interface RandomArguments extends ArgumentsOf<typeof table> {}

export type RandomKind = RandomArguments["kind"];

export type RandomType = NonNullable<RandomArguments["dtype"]>;

export const randomKinds: readonly RandomKind[] = Object.keys(table.kind.kinds) as RandomKind[];

/** The element types of each kind; the first one is its default. */
export const randomTypes: Readonly<Record<RandomKind, readonly [RandomType, ...RandomType[]]>> = {
  bits: ["u32"],
  uniform: ["f32", "f16"],
  normal: ["f32", "f16"],
  bernoulli: ["u8"],
};

export interface RandomProblem<Memory> {
  readonly kind: RandomKind;
  readonly dtype: RandomType;
  /** At least 1. */
  readonly count: number;
  /** The seed, as 32-bit words, the lowest first. */
  readonly key: readonly [number, number];
  /** The counter of the block with the first element, likewise. */
  readonly counter: readonly [number, number, number, number];
  /** Words of that block before the first element, 0 to 3. */
  readonly skip: number;
  /** Of normal; 0 and 1 for other kinds. */
  readonly mean: number;
  readonly deviation: number;
  /** Of bernoulli: words below it give 1. From 1 to 2^32 - 1; 0 for other kinds. */
  readonly threshold: number;
  readonly output: Region<Memory>;
}

export const random: Operation<RandomArguments, RandomProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "random",
  arguments: table,

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const kind = read.kind("kind", args.kind, randomKinds);
    const types = randomTypes[kind];
    const dtype = read.elementType("dtype", args.dtype, { types, default: types[0] });
    const count = read.extent("count", args.count);
    const [low, high] = read.unsigned("seed", args.seed, table.seed.bits);
    const place = read.unsigned("offset", args.offset, table.offset.bits, table.offset.default);
    const factor = factorsOf(read, kind);
    const mean = factor("mean", args.mean, "normal", 0);
    const deviation = factor("deviation", args.deviation, "normal", 1);
    if (deviation < 0) read.fail("deviation", `is ${deviation}; allowed: numbers of at least 0`);
    const probability = factor("probability", args.probability, "bernoulli", 0.5);
    if (probability < 0 || probability > 1)
      read.fail("probability", `is ${probability}; allowed: numbers from 0 to 1`);
    const output = read.region(binder, "output", args.output, count, dtype);
    if (count === 0) return undefined;
    const threshold = kind === "bernoulli" ? Math.round(probability * 2 ** 32) + 0 : 0;
    if (kind === "bernoulli" && threshold % 2 ** 32 === 0)
      return new Fill(output, threshold / 2 ** 32, dtype);
    const quarter = (i: number) => ((place[i]! >>> 2) | (place[i + 1]! << 30)) >>> 0;
    return {
      ...{ kind, dtype, count, key: [low!, high!] },
      ...{ counter: [quarter(0), quarter(1), quarter(2), quarter(3)], skip: place[0]! & 3 },
      ...{ mean, deviation, threshold, output },
    };
  },

  flops: ({ count }) => count,
});

/** Reads factors that belong to one kind, and refuses them for others. */
function factorsOf(read: Reader<typeof table>, kind: RandomKind) {
  return (
    argument: "mean" | "deviation" | "probability",
    value: number | undefined,
    owner: RandomKind,
    fallback: number,
  ): number => {
    const factor = read.factor(argument, value, fallback);
    if (value !== undefined && kind !== owner)
      read.fail(argument, `is given for ${kind}; allowed: for ${owner} only`);
    return factor;
  };
}
