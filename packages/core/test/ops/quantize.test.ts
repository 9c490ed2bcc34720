import { costOf, type QuantizeArguments, quantizedBits, quantizedBlocks } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: QuantizeArguments = {
  ...{ n: 5, k: 70 },
  ...{ input: place(1), b: place(2), scales: place(3) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("quantize", { ...plain, ...change }), argument);
}

describe("quantize descriptor", () => {
  it("counts whole blocks of B, and a scale and a zero point for each", () => {
    for (const bits of quantizedBits)
      for (const block of quantizedBlocks) {
        const change = { bits, block, zeroPoints: place(4), scaleType: "f16", dtype: "f16" } as const;
        const problem = problemOf("quantize", { ...plain, ...change });
        const blocks = Math.ceil(70 / block);
        assert.equal(problem.blocks, blocks);
        assert.equal(problem.input.byteLength, 2 * 5 * 70);
        assert.equal(problem.b.byteLength, (5 * blocks * block * bits) / 8);
        assert.equal(problem.scales.byteLength, 2 * 5 * blocks);
        assert.equal(problem.zeroPoints?.byteLength, 5 * blocks);
      }
  });

  it("has 4 bits, blocks of 32 and scales in f32 by default", () => {
    const { bits, block, scaleType, dtype, zeroPoints } = problemOf("quantize", plain);
    assert.deepEqual([bits, block, scaleType, dtype, zeroPoints], [4, 32, "f32", "f32", undefined]);
  });

  it("says which bits and blocks there are", () => {
    for (const bits of [0, 1, 3, 16, 4.5, "4"]) refuses({ bits }, "bits");
    for (const block of [0, 16, 48, 256, "32"]) refuses({ block }, "block");
    refuses({ scaleType: "bf16" }, "scaleType");
    refuses({ dtype: "u8" }, "dtype");
    assert.throws(() => resolve("quantize", { ...plain, block: 16 }), /block is 16; allowed: 32, 64, 128/);
  });

  it("refuses outputs over the input or one another", () => {
    refuses({ b: place(1) }, "b");
    refuses({ scales: place(1) }, "scales");
    refuses({ scales: place(2) }, "scales");
    for (const id of [1, 2, 3]) refuses({ zeroPoints: place(id) }, "zeroPoints");
    assert.doesNotThrow(() => resolve("quantize", { ...plain, scales: slice(2, 5 * 3 * 16) }));
  });

  it("has nothing to do for no weights", () => {
    for (const change of [{ n: 0 }, { k: 0 }]) {
      const { problem, fills } = resolve("quantize", { ...plain, ...change });
      assert.deepEqual([problem, fills], [undefined, []]);
    }
  });

  it("costs three operations a weight, and its bytes once", () => {
    const { flops, bytes } = costOf("quantize", { ...plain, zeroPoints: place(4) });
    assert.equal(flops, 3 * 350);
    assert.equal(bytes, 4 * 350 + 5 * 3 * (16 + 4 + 1));
  });
});
