import type { RandomProblem } from "@backplane/core";

/** Constants and counters of Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). */

export const ROUNDS = 10;

/** What is added to the words of the key from one round to the next. */
export const KEY_STEPS = [0x9e3779b9, 0xbb67ae85] as const;

const MULTIPLIERS = [0xd2511f53, 0xcd9e8d57] as const;

/** Rounds after which every word of a block depends on the first word of its counter. */
export const UNIFORM_ROUNDS = 2;

/** Parameters of the kernels; see `philoxParameters`. */
export const philoxParameterTypes = {
  key0: "u32",
  key1: "u32",
  mixed0: "u32",
  mixed1: "u32",
  mixed2: "u32",
  mixed3: "u32",
} as const;

type Sequence = Pick<RandomProblem<unknown>, "key" | "counter" | "skip">;

function product(a: number, b: number): readonly [low: number, high: number] {
  const lower = (a & 0xffff) * b;
  const high = Math.floor(((a >>> 16) * b + Math.floor(lower / 2 ** 16)) / 2 ** 16);
  return [Math.imul(a, b) >>> 0, high];
}

/**
 * What the first two rounds make of all but the first word n of a counter, and the complement of the key. In the
 * first round, the second multiplier meets a word that is the same for all n; in the second, the first one does.
 */
export function philoxParameters({
  key,
  counter,
}: Sequence): Readonly<Record<keyof typeof philoxParameterTypes, number>> {
  const [, b, c, d] = counter;
  const next = key.map((word, i) => (word + KEY_STEPS[i]!) >>> 0);
  const [low, high] = product(c, MULTIPLIERS[1]);
  const [nextLow, nextHigh] = product((high ^ b ^ key[0]) >>> 0, MULTIPLIERS[0]);
  return {
    ...{ key0: ~key[0] >>> 0, key1: ~key[1] >>> 0 },
    ...{ mixed0: (d ^ key[1]) >>> 0, mixed1: (low ^ next[0]!) >>> 0 },
    ...{ mixed2: ~(nextHigh ^ next[1]!) >>> 0, mixed3: ~nextLow >>> 0 },
  };
}

/** The place in a sequence that is `elements` further on. */
export function advanced<Given extends Sequence>(given: Given, elements: number): Given {
  const place = given.skip + elements;
  let carry = Math.floor(place / 4);
  const counter = given.counter.map((word) => {
    const sum = word + carry;
    carry = Math.floor(sum / 2 ** 32);
    return sum % 2 ** 32;
  });
  return { ...given, counter, skip: place % 4 };
}
