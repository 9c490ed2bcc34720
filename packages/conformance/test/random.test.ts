import { assert } from "chai";
import { literal } from "#src/literal.js";
import { elements } from "#src/ops/random/formula.js";
import { knownAnswers } from "#src/ops/random/laws.js";
import { type Block, counterOf, philox, words } from "#src/ops/random/philox.js";

/** Philox 4x32-10 as its authors state it, in bigints. */
function plainPhilox(key: readonly [number, number], counter: Block): Block {
  const mask = 0xffffffffn;
  let [a, b, c, d] = counter.map(BigInt) as [bigint, bigint, bigint, bigint];
  let [k, l] = key.map(BigInt) as [bigint, bigint];
  for (let round = 0; round < 10; round++) {
    const [x, y] = [0xd2511f53n * a, 0xcd9e8d57n * c];
    [a, b, c, d] = [(y >> 32n) ^ b ^ k, y & mask, (x >> 32n) ^ d ^ l, x & mask];
    [k, l] = [(k + 0x9e3779b9n) & mask, (l + 0xbb67ae85n) & mask];
  }
  return [Number(a), Number(b), Number(c), Number(d)];
}

const standard = { mean: 0, deviation: 1, threshold: 2 ** 30 } as const;
const samples = 2 ** 18;

/** Elements of a kind, in f32 where there is a choice, from the start of the sequence of one seed. */
function drawn(kind: "uniform" | "normal" | "bernoulli"): Float64Array {
  const all = words({ key: [2026, 0], counter: [0, 0, 0, 0], skip: 0 }, samples);
  const values = new Float64Array(samples);
  elements({ ...standard, kind, dtype: "f32" }, all, 0, samples, (i, value) => {
    values[i] = value;
  });
  return values;
}

/** The mean of a function of the elements. */
function meanOf(values: Float64Array, of: (x: number) => number): number {
  return values.reduce((sum, x) => sum + of(x), 0) / values.length;
}

/** The chi-squared statistic of counts that should be equal. */
function chiSquared(counts: readonly number[]): number {
  const expected = counts.reduce((a, b) => a + b) / counts.length;
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
}

/** With k degrees of freedom it has mean k and variance 2k: five deviations around it. */
function assertLikely(counts: readonly number[]): void {
  const freedom = counts.length - 1;
  assert.closeTo(chiSquared(counts), freedom, 5 * Math.sqrt(2 * freedom));
}

function histogram(values: Float64Array, bins: number, binOf: (x: number) => number): number[] {
  const counts = new Array<number>(bins).fill(0);
  for (const x of values) counts[binOf(x)]!++;
  return counts;
}

/** Bounds of equally likely bins of the standard normal distribution: Simpson's rule in steps of 1/1000. */
function quantiles(bins: number): readonly number[] {
  const density = (x: number) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI);
  const bounds: number[] = [];
  const step = 1e-3;
  let [x, below] = [-9, 0];
  while (bounds.length < bins - 1) {
    const more = (step / 6) * (density(x) + 4 * density(x + step / 2) + density(x + step));
    const wanted = (bounds.length + 1) / bins;
    if (below + more < wanted) {
      below += more;
      x += step;
    } else bounds.push(x + (step * (wanted - below)) / more);
  }
  return bounds;
}

describe("cases of random", () => {
  it("are shown as literals, bigints too", () => {
    assert.equal(literal({ seed: 1, offset: 2n ** 64n }), "{seed: 1, offset: 18446744073709551616n}");
  });
});

describe("the oracle of random", () => {
  it("gives the published answers", () => {
    for (const [counter, key, answer] of knownAnswers) {
      assert.deepEqual(philox(key, counter), answer);
      assert.deepEqual(plainPhilox(key, counter), answer);
    }
  });

  it("multiplies as bigints do, and finds the counter of a block", () => {
    // Words of a sequence are as good as any.
    const all = words({ key: [1, 2], counter: [3, 4, 5, 6], skip: 0 }, 6 * 500);
    for (let i = 0; i < all.length; i += 6) {
      const [k, l, ...counter] = all.slice(i, i + 6) as unknown as [number, number, ...Block];
      const block = plainPhilox([k, l], counter);
      assert.deepEqual(philox([k, l], counter), block);
      assert.deepEqual(counterOf([k, l], block), counter);
    }
  });

  it("carries from word to word of the counter, and from the last one to nothing", () => {
    const top = 0xffffffff;
    for (const [counter, next] of [
      [
        [top, 5, 6, 7],
        [0, 6, 6, 7],
      ],
      [
        [top, top, 6, 7],
        [0, 0, 7, 7],
      ],
      [
        [top, top, top, 7],
        [0, 0, 0, 8],
      ],
      [
        [top, top, top, top],
        [0, 0, 0, 0],
      ],
    ] as const) {
      const all = words({ key: [8, 9], counter, skip: 3 }, 5);
      assert.deepEqual([...all.slice(4)], [...philox([8, 9], next)]);
    }
  });

  it("gives uniform numbers that are even in [0, 1), and independent of their neighbours", () => {
    const values = drawn("uniform");
    // Five deviations of a mean of so many.
    const close = (got: number, expected: number, deviation: number) =>
      assert.closeTo(got, expected, (5 * deviation) / Math.sqrt(samples));
    close(
      meanOf(values, (x) => x),
      1 / 2,
      Math.sqrt(1 / 12),
    );
    close(
      meanOf(values, (x) => x * x),
      1 / 3,
      Math.sqrt(4 / 45),
    );
    assertLikely(histogram(values, 256, (x) => Math.floor(256 * x)));
    // The lowest of the 24 bits, too.
    assertLikely(histogram(values, 256, (x) => (x * 2 ** 24) % 256));
    const pairs = new Array<number>(256).fill(0);
    for (let i = 0; i < samples; i += 2)
      pairs[16 * Math.floor(16 * values[i]!) + Math.floor(16 * values[i + 1]!)]!++;
    assertLikely(pairs);
  });

  it("gives normal numbers with the moments and quantiles of their distribution", () => {
    const values = drawn("normal");
    for (const [power, moment, variance] of [
      [1, 0, 1],
      [2, 1, 2],
      [3, 0, 15],
      [4, 3, 96],
    ] as const)
      assert.closeTo(
        meanOf(values, (x) => x ** power),
        moment,
        5 * Math.sqrt(variance / samples),
      );
    const bounds = quantiles(64);
    assertLikely(histogram(values, 64, (x) => bounds.filter((bound) => bound <= x).length));
    // Both of a pair come from one radius, and are independent all the same.
    let products = 0;
    for (let i = 0; i < samples; i += 2) products += values[i]! * values[i + 1]!;
    assert.closeTo(products / (samples / 2), 0, 5 / Math.sqrt(samples / 2));
  });

  it("gives truth values of the probability that is asked for", () => {
    const share = meanOf(drawn("bernoulli"), (x) => x);
    assert.closeTo(share, 1 / 4, 5 * Math.sqrt(3 / 16 / samples));
  });
});
