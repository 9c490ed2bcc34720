import { costOf, type RandomArguments, randomKinds, randomTypes } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve } from "../support/resolve.js";

const plain: RandomArguments = { kind: "uniform", count: 8, output: place(1), seed: 1 };

/** Checks which argument is refused, and that the message says this. */
function refuses(change: object, argument: string, message = argument): void {
  const attempt = () => resolve("random", { ...plain, ...change });
  throws("INVALID_ARGUMENT", attempt, argument);
  assert.throws(attempt, message);
}

describe("random descriptor", () => {
  it("makes words of seeds, which may be numbers or bigints", () => {
    const keyOf = (seed: number | bigint) => problemOf("random", { ...plain, seed }).key;
    assert.deepEqual(keyOf(0), [0, 0]);
    assert.deepEqual(keyOf(2 ** 53 - 1), [0xffffffff, 0x1fffff]);
    assert.deepEqual(keyOf(2n ** 53n - 1n), [0xffffffff, 0x1fffff]);
    assert.deepEqual(keyOf(0x299f31d0a4093822n), [0xa4093822, 0x299f31d0]);
    assert.deepEqual(keyOf(2n ** 64n - 1n), [0xffffffff, 0xffffffff]);
  });

  it("makes a counter of an offset, and the words that are left out of its block", () => {
    const placeOf = (offset?: number | bigint) => {
      const { counter, skip } = problemOf("random", {
        ...plain,
        ...(offset === undefined ? {} : { offset }),
      });
      return [...counter, skip];
    };
    assert.deepEqual(placeOf(), [0, 0, 0, 0, 0]);
    assert.deepEqual(placeOf(7), [1, 0, 0, 0, 3]);
    assert.deepEqual(placeOf(2 ** 34 + 1), [0, 1, 0, 0, 1]);
    assert.deepEqual(placeOf(2 ** 53 - 1), [0xffffffff, 0x7ffff, 0, 0, 3]);
    assert.deepEqual(placeOf((5n << 66n) + 6n), [1, 0, 5, 0, 2]);
    assert.deepEqual(placeOf(2n ** 130n - 1n), [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 3]);
  });

  it("refuses seeds and offsets that are not whole, or out of range, and says what is allowed", () => {
    for (const wrong of [-1, 0.5, 2 ** 53, Number.NaN, "1", null, -1n]) {
      refuses({ seed: wrong }, "seed", "2^64 - 1, as bigints from 2^53 on");
      refuses({ offset: wrong }, "offset", "2^130 - 1, as bigints from 2^53 on");
    }
    refuses({ seed: undefined }, "seed");
    refuses({ seed: 2n ** 64n }, "seed", "seed is 18446744073709551616n");
    refuses({ offset: 2n ** 130n }, "offset");
  });

  it("knows the element types of each kind", () => {
    assert.deepEqual(Object.keys(randomTypes), [...randomKinds]);
    for (const kind of randomKinds) {
      assert.equal(problemOf("random", { ...plain, kind }).dtype, randomTypes[kind][0]);
      for (const dtype of ["f32", "f16", "u32", "u8"] as const)
        if (randomTypes[kind].includes(dtype))
          assert.equal(problemOf("random", { ...plain, kind, dtype }).dtype, dtype);
        else refuses({ kind, dtype }, "dtype", `allowed: ${randomTypes[kind].join(", ")}`);
    }
  });

  it("refuses factors of other kinds, and factors out of range", () => {
    refuses({ mean: 0 }, "mean", "mean is given for uniform; allowed: for normal only");
    refuses({ kind: "bernoulli", deviation: 1 }, "deviation", "deviation is given for bernoulli");
    refuses({ kind: "normal", probability: 0.5 }, "probability", "allowed: for bernoulli only");
    refuses(
      { kind: "normal", deviation: -0.5 },
      "deviation",
      "deviation is -0.5; allowed: numbers of at least 0",
    );
    refuses({ kind: "normal", mean: 1e39 }, "mean");
    for (const probability of [-0.1, 1.5])
      refuses({ kind: "bernoulli", probability }, "probability", "numbers from 0 to 1");
  });

  it("takes standard deviates and even odds by default", () => {
    const normal = problemOf("random", { ...plain, kind: "normal" });
    assert.deepEqual([normal.mean, normal.deviation], [0, 1]);
    assert.equal(problemOf("random", { ...plain, kind: "bernoulli" }).threshold, 2 ** 31);
  });

  it("fills where there is no choice", () => {
    const fillOf = (probability: number) =>
      resolve("random", { ...plain, kind: "bernoulli", probability }).fills;
    for (const [probability, value] of [
      [0, 0],
      [-0, 0],
      [2 ** -34, 0],
      [1, 1],
      [1 - 2 ** -40, 1],
    ] as const)
      assert.deepInclude(fillOf(probability)[0], { value, dtype: "u8" });
    assert.equal(problemOf("random", { ...plain, kind: "bernoulli", probability: 2 ** -32 }).threshold, 1);
  });

  it("has nothing to do for no elements", () => {
    for (const kind of randomKinds)
      assert.deepEqual(resolve("random", { ...plain, kind, count: 0 }), { problem: undefined, fills: [] });
    refuses({ count: 0, seed: -1 }, "seed");
  });

  it("counts one operation and one access per element", () => {
    assert.deepEqual(costOf("random", plain), { flops: 8, bytes: 32 });
    assert.deepEqual(costOf("random", { ...plain, dtype: "f16" }), { flops: 8, bytes: 16 });
    assert.deepEqual(costOf("random", { ...plain, kind: "bernoulli" }), { flops: 8, bytes: 8 });
  });
});
