import { type AttentionGradientArguments, contiguousGradientSteps, costOf } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: AttentionGradientArguments = {
  ...{ batch: 2, heads: 6, kvHeads: 3, queryLength: 5, keyLength: 7, headSize: 4 },
  ...{ q: place(1), k: place(2), v: place(3), out: place(4), logSumExp: place(5), outGradient: place(6) },
  ...{ qGradient: place(7), kGradient: place(8), vGradient: place(9) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("attentionGradient", { ...plain, ...change }), argument);
}

describe("attentionGradient descriptor", () => {
  it("fills in every default", () => {
    const { kvHeads: _, ...rest } = plain;
    const region = (memory: number, byteLength: number) => ({ memory, byteOffset: 0, byteLength });
    assert.deepEqual(problemOf("attentionGradient", rest), {
      ...{ dtype: "f32", batch: 2, heads: 6, kvHeads: 6, queryLength: 5, keyLength: 7, headSize: 4 },
      ...{ scale: 0.5, visible: 7, oldest: undefined, mask: undefined, rows: undefined },
      ...{ q: region(1, 960), k: region(2, 1344), v: region(3, 1344), out: region(4, 960) },
      ...{ logSumExp: region(5, 240), outGradient: region(6, 960) },
      ...{ qGradient: region(7, 960), kGradient: region(8, 1344), vGradient: region(9, 1344) },
    });
    const halves = problemOf("attentionGradient", { ...plain, dtype: "f16" });
    assert.deepEqual([halves.kGradient.byteLength, halves.logSumExp.byteLength], [336, 240]);
  });

  it("takes causal modes, windows and masks as attention does, and keeps all keys", () => {
    const problem = (change: object) => problemOf("attentionGradient", { ...plain, ...change });
    assert.equal(problem({ causal: true }).visible, 0);
    assert.equal(problem({ causal: "lower-right" }).visible, 2);
    const late = problem({ causal: "lower-right", window: 2, mask: place(10), maskDtype: "u8" });
    assert.deepInclude(late, { visible: 2, oldest: 1, keyLength: 7 });
    assert.deepEqual(late.mask!.strides, [210, 35, 7, 1]);
    refuses({ window: 3 }, "window");
    refuses({ maskDtype: "u8" }, "mask");
    refuses({ kvHeads: 4 }, "kvHeads");
    refuses({ dtype: "bf16" }, "dtype");
  });

  it("gives backends the copies that make rows contiguous", () => {
    const strides = { qStrides: [160, 4, 32], vGradientStrides: [120, 40, 4] };
    const problem = problemOf("attentionGradient", { ...plain, ...strides });
    assert.hasAllKeys(problem.rows!, ["q", "vGradient"]);
    const sizes: number[] = [];
    const { before, gradient, after } = contiguousGradientSteps(problem, (byteLength) => {
      sizes.push(byteLength);
      return { memory: 20 + sizes.length, byteOffset: 0, byteLength };
    });
    assert.deepEqual(sizes, [960, 672]);
    assert.deepInclude(before[0], { shape: [2, 6, 5, 4], inputStrides: [160, 4, 32, 1], input: problem.q });
    assert.deepInclude(gradient, { rows: undefined, q: before[0]!.output, vGradient: after[0]!.input });
    assert.equal(after[0]!.output, problem.vGradient);
    assert.deepEqual([before.length, after.length, gradient.k], [1, 1, problem.k]);
    refuses({ kGradientStrides: [84, 28, 0] }, "kGradientStrides");
    refuses({ outStrides: [1, 2] }, "outStrides");
  });

  it("refuses outputs that share bytes with another operand; inputs may be one", () => {
    for (const output of ["qGradient", "kGradient", "vGradient"] as const)
      for (const input of ["q", "k", "v", "out", "logSumExp", "outGradient", "mask"])
        refuses({ [input]: plain[output] }, output);
    refuses({ kGradient: slice(9, 668) }, "vGradient");
    assert.isDefined(problemOf("attentionGradient", { ...plain, out: plain.outGradient }));
  });

  it("has gradients of zeros to write where there are no keys, or no queries, and nothing otherwise", () => {
    const nothing = { problem: undefined, fills: [] };
    for (const change of [{ batch: 0 }, { headSize: 0 }, { queryLength: 0, keyLength: 0 }])
      assert.deepEqual(resolve("attentionGradient", { ...plain, ...change }), nothing);
    for (const change of [{ heads: 0 }, { queryLength: 0 }]) {
      const problem = problemOf("attentionGradient", { ...plain, ...change, kGradientStrides: [120, 40, 4] });
      assert.deepEqual([problem.qGradient.byteLength, problem.vGradient.byteLength], [0, 672]);
      assert.hasAllKeys(problem.rows!, ["kGradient"]);
    }
    assert.isUndefined(problemOf("attentionGradient", { ...plain, keyLength: 0 }).rows);
  });

  it("counts five products for each pair that is seen, and bytes", () => {
    // 5 queries that see 1 to 5 keys.
    assert.equal(costOf("attentionGradient", { ...plain, causal: true }).flops, 2 * 6 * 15 * (10 * 4 + 1));
    assert.equal(costOf("attentionGradient", plain).bytes, 4 * 960 + 4 * 672 + 240);
  });
});
