import { type AttentionArguments, contiguousSteps, costOf } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: AttentionArguments = {
  ...{ batch: 2, heads: 6, kvHeads: 3, queryLength: 5, keyLength: 7, headSize: 4 },
  ...{ q: place(1), k: place(2), v: place(3), out: place(4) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("attention", { ...plain, ...change }), argument);
}

/** Pairs of query and key that the mask lets through, counted one by one. */
function countPairs(
  queryLength: number,
  keyLength: number,
  causal: AttentionArguments["causal"],
  window = Number.POSITIVE_INFINITY,
): number {
  let pairs = 0;
  for (let i = 0; i < queryLength; i++)
    for (let j = 0; j < keyLength; j++) {
      const last = i + (causal === "lower-right" ? keyLength - queryLength : 0);
      if (causal === false || causal === undefined || (j <= last && j > last - window)) pairs++;
    }
  return pairs;
}

describe("attention descriptor", () => {
  it("fills in every default", () => {
    const { kvHeads: _, ...rest } = plain;
    assert.deepEqual(problemOf("attention", rest), {
      ...{ dtype: "f32", batch: 2, heads: 6, kvHeads: 6, queryLength: 5, keyLength: 7, headSize: 4 },
      ...{ scale: 0.5, visible: 7, oldest: undefined, mask: undefined, keyPitch: 7, rows: undefined },
      q: { memory: 1, byteOffset: 0, byteLength: 960 },
      k: { memory: 2, byteOffset: 0, byteLength: 1344 },
      v: { memory: 3, byteOffset: 0, byteLength: 1344 },
      out: { memory: 4, byteOffset: 0, byteLength: 960 },
      logSumExp: undefined,
    });
    assert.equal(problemOf("attention", plain).k.byteLength, 672);
    assert.equal(problemOf("attention", { ...plain, scale: -3 }).scale, -3);
  });

  it("takes keys and values with room behind them as they are, and names other rows", () => {
    // batch 2, heads 6, kvHeads 3, queryLength 5, keyLength 7, headSize 4
    const cache = { ...plain, kvHeads: 3, kStrides: [120, 40, 4], vStrides: [120, 40, 4] };
    const problem = problemOf("attention", cache);
    assert.deepInclude(problem, { keyPitch: 10, rows: undefined });
    assert.equal(problem.k.byteLength, 4 * (120 + 2 * 40 + 28));
    const kRows = { extents: [2, 3, 7], size: 4, strides: [120, 40, 4] } as const;
    const { vStrides: _, ...one } = cache;
    assert.deepInclude(problemOf("attention", one), { keyPitch: 7, rows: { k: kRows } });
    const fused = { ...plain, qStrides: [160, 4, 32], outStrides: [120, 4, 24] };
    assert.deepEqual(problemOf("attention", fused).rows, {
      q: { extents: [2, 6, 5], size: 4, strides: [160, 4, 32] },
      out: { extents: [2, 6, 5], size: 4, strides: [120, 4, 24] },
    });
    // Strides along axes of one element do not matter.
    const single = { ...plain, batch: 1, kStrides: [5, 28, 4], vStrides: [0, 28, 4] };
    assert.deepInclude(problemOf("attention", single), { keyPitch: 7, rows: undefined });
    const none = problemOf("attention", { ...fused, keyLength: 0 });
    assert.deepInclude(none, { keyLength: 1, visible: -5 });
    assert.isDefined(none.rows!.k);
    for (const [change, argument] of [
      [{ qStrides: [120, 20, -4] }, "qStrides[2]"],
      [{ kStrides: [1, 2] }, "kStrides"],
      [{ outStrides: [120, 4, 4] }, "outStrides"],
      [{ outStrides: [60, 20, 4] }, "outStrides"],
    ] as const)
      refuses(change, argument);
  });

  it("says which strides it was given where two rows would be at one place", () => {
    const overlapping = { ...plain, batch: 1, outStrides: [7, 4, 4] };
    assert.throws(
      () => resolve("attention", overlapping),
      /outStrides is \[7, 4, 4\], which may put two rows/,
    );
  });

  it("gives backends the copies that make rows contiguous", () => {
    const problem = problemOf("attention", {
      ...{ ...plain, qStrides: [160, 4, 32], outStrides: [120, 4, 24], kStrides: [84, 4, 12] },
    });
    const sizes: number[] = [];
    const { before, attention, after } = contiguousSteps(problem, (byteLength) => {
      sizes.push(byteLength);
      return { memory: 10 + sizes.length, byteOffset: 0, byteLength };
    });
    assert.deepEqual(sizes, [960, 672, 960]);
    assert.deepInclude(before[0], { shape: [2, 6, 5, 4], inputStrides: [160, 4, 32, 1], input: problem.q });
    assert.deepInclude(before[1], { shape: [2, 3, 7, 4], inputStrides: [84, 4, 12, 1], input: problem.k });
    assert.deepInclude(attention, {
      rows: undefined,
      keyPitch: 7,
      q: before[0]!.output,
      k: before[1]!.output,
    });
    assert.equal(attention.v, problem.v);
    assert.deepInclude(after!, { input: attention.out, output: problem.out, shape: [2, 5, 6, 4] });
  });

  it("leaves those rows where they are that a backend takes there", () => {
    const problem = problemOf("attention", {
      ...{ ...plain, qStrides: [160, 4, 32], outStrides: [120, 4, 24], kStrides: [84, 4, 12] },
    });
    const scratch = (byteLength: number) => ({ memory: 10, byteOffset: 0, byteLength });
    const steps = contiguousSteps(problem, scratch, (name, { strides }) => name !== "q" && strides[2] !== 24);
    assert.lengthOf(steps.before, 1);
    assert.deepInclude(steps.before[0], { input: problem.q, output: steps.attention.q });
    assert.deepEqual(steps.attention.rows, { k: problem.rows!.k! });
    assert.equal(steps.attention.k, problem.k);
    assert.deepInclude(steps.after!, { input: steps.attention.out, output: problem.out });
  });

  it("takes each causal mode", () => {
    const visible = (causal: unknown) =>
      problemOf("attention", { ...plain, causal } as AttentionArguments).visible;
    assert.equal(visible(false), 7);
    assert.equal(visible(true), 0);
    assert.equal(visible("upper-left"), 0);
    assert.equal(visible("lower-right"), 2);
    assert.equal(problemOf("attention", { ...plain, queryLength: 9, causal: "lower-right" }).visible, -2);
    for (const value of ["lower-left", "", 1]) refuses({ causal: value }, "causal");
  });

  it("takes windows, and leaves out what no query sees", () => {
    const problem = (change: object) => problemOf("attention", { ...plain, ...change });
    // batch 2, heads 6, kvHeads 3, queryLength 5, keyLength 7, headSize 4
    assert.deepInclude(problem({ causal: true, window: 3 }), { visible: 0, oldest: -2, keyLength: 7 });
    assert.isUndefined(problem({ causal: true, window: 5 }).oldest);
    const late = problem({ causal: "lower-right", window: 2, mask: place(5) });
    assert.deepInclude(late, { visible: 1, oldest: 0, keyLength: 6, keyPitch: 7 });
    assert.deepEqual(late.k, { memory: 2, byteOffset: 16, byteLength: 672 - 16 });
    assert.deepEqual(late.mask, {
      ...{ dtype: "f32", strides: [210, 35, 7, 1] },
      region: { memory: 5, byteOffset: 4, byteLength: 1680 - 4 },
    });
    const one = problem({ causal: "lower-right", window: 2, queryLength: 1 });
    assert.deepInclude(one, { visible: 1, oldest: undefined, keyLength: 2, keyPitch: 7 });
    // Keys that are gathered to `keyLength` all stay.
    const apart = problem({ causal: "lower-right", window: 2, kStrides: [84, 4, 12] });
    assert.deepInclude(apart, { visible: 2, oldest: 1, keyLength: 7 });
    for (const window of [0, -1, 1.5, "3"]) refuses({ causal: true, window }, "window");
    for (const causal of [undefined, false]) refuses({ causal, window: 3 }, "window");
  });

  it("takes masks of any strides and of types of their own", () => {
    const mask = (change: object) => problemOf("attention", { ...plain, mask: place(5), ...change }).mask!;
    assert.deepEqual(mask({}).region, { memory: 5, byteOffset: 0, byteLength: 4 * 2 * 6 * 5 * 7 });
    assert.equal(mask({ dtype: "f16" }).dtype, "f16");
    const bytes = mask({ maskDtype: "u8", maskStrides: [0, 0, 9, 1] });
    assert.deepEqual(bytes, {
      ...{ dtype: "u8", strides: [0, 0, 9, 1] },
      region: { memory: 5, byteOffset: 0, byteLength: 4 * 9 + 7 },
    });
    assert.deepEqual(mask({ batch: 1, queryLength: 1 }).strides, [0, 7, 0, 1]);
    const strided = { outStrides: [140, 20, 4], qStrides: [160, 4, 32] };
    assert.isUndefined(problemOf("attention", { ...plain, ...strided, keyLength: 0, mask: place(5) }).mask);
    refuses({ maskStrides: [0, 0, 0, 1] }, "mask");
    refuses({ maskDtype: "u8" }, "mask");
    refuses({ mask: place(5), maskDtype: "i32" }, "maskDtype");
    refuses({ mask: place(5), maskStrides: [0, 0, 0] }, "maskStrides");
    refuses({ mask: place(5), maskStrides: [0, 0, -7, 1] }, "maskStrides[2]");
    refuses({ mask: place(4) }, "out");
  });

  it("refuses bad sizes, scales and head counts", () => {
    for (const argument of ["batch", "heads", "kvHeads", "queryLength", "keyLength", "headSize"])
      for (const value of [-1, 0.5, "2", 2 ** 53]) refuses({ [argument]: value }, argument);
    for (const value of [Number.NaN, Infinity, "1"]) refuses({ scale: value }, "scale");
    for (const value of [0, 4, 5, 12]) refuses({ kvHeads: value }, "kvHeads");
    refuses({ batch: 2 ** 30, queryLength: 2 ** 30 }, "q");
    refuses({ batch: 2 ** 30, keyLength: 2 ** 30 }, "k");
    refuses({ dtype: "bf16" }, "dtype");
  });

  it("refuses an output that shares bytes with an input; inputs may be one", () => {
    for (const argument of ["q", "k", "v"]) {
      refuses({ [argument]: place(4) }, "out");
      refuses({ [argument]: slice(4, 956) }, "out");
      assert.isDefined(problemOf("attention", { ...plain, [argument]: slice(4, 960) }));
    }
    assert.isDefined(problemOf("attention", { ...plain, v: plain.k }));
  });

  it("has nothing to do for an empty output, and gives zeros where there are no keys", () => {
    for (const change of [
      { batch: 0 },
      { heads: 0 },
      { heads: 0, kvHeads: 0 },
      { queryLength: 0 },
      { headSize: 0 },
    ])
      assert.deepEqual(resolve("attention", { ...plain, ...change }), { problem: undefined, fills: [] });
    const { problem, fills } = resolve("attention", { ...plain, keyLength: 0, dtype: "f16" });
    assert.isUndefined(problem);
    assert.deepEqual(fills, [
      { region: { memory: 4, byteOffset: 0, byteLength: 480 }, value: 0, dtype: "f16" },
    ]);
  });

  it("stores the logarithms of the sums in f32, whatever the type, also where there are no keys", () => {
    const stored = { ...plain, logSumExp: place(5) };
    assert.deepEqual(problemOf("attention", { ...stored, dtype: "f16" }).logSumExp, {
      ...{ memory: 5, byteOffset: 0, byteLength: 4 * 2 * 6 * 5 },
    });
    const none = problemOf("attention", { ...stored, keyLength: 0 });
    assert.deepInclude(none, { keyLength: 1, keyPitch: 1, visible: -5, mask: undefined });
    assert.deepEqual(none.rows!.k!.strides, [0, 0, 0]);
    assert.deepEqual(resolve("attention", { ...stored, queryLength: 0 }), { problem: undefined, fills: [] });
    refuses({ logSumExp: place(5), headSize: 0 }, "headSize");
    for (const argument of ["q", "k", "v", "out", "mask"])
      refuses({ logSumExp: place(6), [argument]: place(6) }, "logSumExp");
    assert.equal(costOf("attention", stored).bytes, 960 + 672 + 672 + 960 + 240);
  });

  it("counts flops as a loop over all pairs does", () => {
    for (let queryLength = 1; queryLength <= 7; queryLength++)
      for (let keyLength = 1; keyLength <= 7; keyLength++)
        for (const causal of [false, true, "upper-left", "lower-right"] as const) {
          const args = { ...plain, queryLength, keyLength, causal };
          // Per pair: headSize multiply-adds for the score, as many for the sum, one exponential.
          const expected = 2 * 6 * countPairs(queryLength, keyLength, causal) * (2 * 4 + 2 * 4 + 1);
          assert.equal(costOf("attention", args).flops, expected, JSON.stringify(args));
          if (causal !== false)
            for (const window of [1, 2, 5]) {
              const pairs = countPairs(queryLength, keyLength, causal, window);
              assert.equal(
                costOf("attention", { ...args, window }).flops,
                2 * 6 * pairs * 17,
                JSON.stringify(args),
              );
            }
        }
  });

  it("counts bytes", () => {
    assert.equal(costOf("attention", plain).bytes, 960 + 672 + 672 + 960);
    assert.equal(costOf("attention", { ...plain, dtype: "f16" }).bytes, 480 + 336 + 336 + 480);
    const masked = { ...plain, mask: place(5), maskDtype: "u8", maskStrides: [0, 0, 7, 1] } as const;
    assert.equal(costOf("attention", masked).bytes, 960 + 672 + 672 + 960 + 5 * 7);
    assert.deepEqual(costOf("attention", { ...plain, batch: 0 }), { flops: 0, bytes: 0 });
  });
});
