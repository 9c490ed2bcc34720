import { costOf, dtypeBytes, type GatherArguments, gatherTypes } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: GatherArguments = {
  ...{ shape: [2, 5, 4], axis: 1, indexShape: [2, 3, 4] },
  ...{ input: place(1), indices: place(2), output: place(3) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("gather", { ...plain, ...change }), argument);
}

function formOf(change: object): readonly number[] {
  const problem = problemOf("gather", { ...plain, ...change });
  const { outer, length, count, inner, outerStride, axisStride, innerStride } = problem;
  return [outer, length, count, inner, outerStride, axisStride, innerStride];
}

describe("gather descriptor", () => {
  it("merges the axes before and after its own, and finds the strides of indices", () => {
    assert.deepEqual(formOf({}), [2, 5, 3, 4, 12, 4, 1]);
    assert.deepEqual(formOf({ axis: -2 }), [2, 5, 3, 4, 12, 4, 1]);
    assert.deepEqual(formOf({ indexShape: [1, 3, 4] }), [2, 5, 3, 4, 0, 4, 1]);
    assert.deepEqual(formOf({ indexShape: [2, 3, 1] }), [2, 5, 3, 4, 3, 1, 0]);
    assert.deepEqual(formOf({ indexShape: [1, 3, 1] }), [2, 5, 3, 4, 0, 1, 0]);
    assert.deepEqual(formOf({ shape: [9, 7], axis: undefined, indexShape: [6, 1] }), [1, 9, 6, 7, 0, 1, 0]);
    assert.deepEqual(formOf({ shape: [9], axis: 0, indexShape: [6] }), [1, 9, 6, 1, 0, 1, 0]);
    const six = { shape: [2, 3, 4, 5, 6, 7], axis: 3 };
    assert.deepEqual(formOf({ ...six, indexShape: [2, 3, 4, 8, 1, 1] }), [24, 5, 8, 42, 8, 1, 0]);
  });

  it("takes extents of 1 for either form", () => {
    assert.deepEqual(formOf({ shape: [1, 5, 1], indexShape: [1, 3, 1] }), [1, 5, 3, 1, 0, 1, 0]);
    assert.deepEqual(formOf({ shape: [3, 5, 1], indexShape: [3, 2, 1] }), [3, 5, 2, 1, 2, 1, 0]);
  });

  it("refuses indices that fit neither form, and says which do", () => {
    refuses({ indexShape: [2, 3] }, "indexShape");
    refuses({ indexShape: [3, 3, 4] }, "indexShape");
    refuses({ indexShape: [2, 3, 2] }, "indexShape");
    const shape = [2, 3, 5, 4];
    refuses({ shape, axis: 2, indexShape: [2, 1, 3, 4] }, "indexShape");
    assert.throws(
      () => resolve("gather", { ...plain, indexShape: [2, 3, 2] }),
      /indexShape is \[2, 3, 2\]; allowed from axis 2 to 2: \[4\], as in shape, or nothing but 1/,
    );
  });

  it("refuses bad shapes, axes and types", () => {
    for (const axis of [3, -4, 0.5, "1", null, Number.NaN]) refuses({ axis }, "axis");
    refuses({ shape: [], indexShape: [] }, "axis");
    refuses({ shape: [2, -5, 4] }, "shape[1]");
    refuses({ indexShape: [2, -3, 4] }, "indexShape[1]");
    refuses({ dtype: "bf16" }, "dtype");
    refuses({ index: [1] }, "index");
  });

  it("refuses an output over the input or the indices", () => {
    refuses({ output: place(1) }, "output");
    refuses({ output: slice(2, 92) }, "output");
    assert.isDefined(problemOf("gather", { ...plain, output: slice(2, 96), indices: place(2) }));
  });

  it("reads indices of four bytes, whatever the type of the elements", () => {
    for (const dtype of gatherTypes) {
      const { indices, input, output } = problemOf("gather", { ...plain, dtype });
      assert.equal(indices.byteLength, 96);
      assert.equal(input.byteLength, 40 * dtypeBytes[dtype]);
      assert.equal(output.byteLength, 24 * dtypeBytes[dtype]);
    }
  });

  it("has nothing to do for no results, and zeros to write if nothing is in range", () => {
    for (const change of [
      { indexShape: [2, 0, 4] },
      { shape: [0, 5, 4], indexShape: [0, 3, 4] },
      { shape: [2, 5, 0], indexShape: [2, 3, 1] },
      { shape: [2, 0, 4], indexShape: [2, 0, 4] },
    ])
      assert.deepEqual(resolve("gather", { ...plain, ...change }), { problem: undefined, fills: [] });
    const { problem, fills } = resolve("gather", { ...plain, shape: [2, 0, 4], dtype: "u8" });
    assert.isUndefined(problem);
    assert.deepEqual(
      fills.map(({ region, value, dtype }) => [region.byteLength, value, dtype]),
      [[24, 0, "u8"]],
    );
  });

  it("counts the indices, and no more elements read than written", () => {
    assert.deepEqual(costOf("gather", plain), { flops: 0, bytes: 3 * 96 });
    assert.deepEqual(costOf("gather", { ...plain, indexShape: [1, 50, 1] }), {
      flops: 0,
      bytes: 160 + 200 + 1600,
    });
  });
});
