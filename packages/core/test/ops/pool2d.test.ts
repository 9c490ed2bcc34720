import { costOf, type Pool2dArguments, pool2dKinds } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: Pool2dArguments = {
  ...{ kind: "max", inputShape: [2, 3, 8, 10], kernel: [2, 3] },
  ...{ input: place(1), output: place(2) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("pool2d", { ...plain, ...change }), argument);
}

function outputOf(change: object): readonly number[] {
  const { outHeight, outWidth } = problemOf("pool2d", { ...plain, ...change });
  return [outHeight, outWidth];
}

describe("pool2d descriptor", () => {
  it("has one form for both layouts", () => {
    const extents = (change: object) => {
      const { planes, height, width, inner } = problemOf("pool2d", { ...plain, ...change });
      return [planes, height, width, inner];
    };
    assert.deepEqual(extents({}), [6, 8, 10, 1]);
    assert.deepEqual(extents({ layout: "NHWC" }), [2, 3, 8, 10]);
  });

  it("steps by the kernel if no stride is given", () => {
    assert.deepEqual(outputOf({}), [4, 3]);
    assert.deepEqual(outputOf({ stride: [1, 1] }), [7, 8]);
    assert.deepEqual(outputOf({ padding: [1, 0, 0, 2] }), [4, 4]);
    assert.deepEqual(outputOf({ dilation: [7, 4] }), [1, 1]);
    const { strideY, dilationY } = problemOf("pool2d", { ...plain, kernel: [1, 3], dilation: [2 ** 40, 2] });
    assert.deepEqual([strideY, dilationY], [1, 1]);
  });

  it("rounds extents up if told to, but begins no window behind the input", () => {
    assert.deepEqual(outputOf({ ceil: true }), [4, 4]);
    assert.deepEqual(outputOf({ ceil: true, stride: [5, 5] }), [2, 2]);
    // A second row of windows would begin in the padding below.
    assert.deepEqual(outputOf({ ceil: true, stride: [9, 5], padding: [0, 0, 1, 0] }), [1, 2]);
    assert.deepEqual(outputOf({ ceil: true, kernel: [9, 12] }), [1, 1]);
  });

  it("checks the shape of the output", () => {
    assert.deepEqual(outputOf({ outputShape: [2, 3, 4, 3] }), [4, 3]);
    refuses({ outputShape: [2, 3, 3, 4] }, "outputShape");
    refuses({ outputShape: [2, 4, 3, 3], layout: "NHWC" }, "outputShape");
  });

  it("counts a comparison for each place of a window", () => {
    const { output, input } = problemOf("pool2d", { ...plain, dtype: "f16" });
    assert.deepEqual([input.byteLength, output.byteLength], [960, 144]);
    assert.deepEqual(costOf("pool2d", plain), { flops: 72 * 6, bytes: 1920 + 288 });
    const indices = place(3);
    assert.equal(costOf("pool2d", { ...plain, dtype: "f16", indices }).bytes, 960 + 144 + 288);
  });

  it("refuses windows that meet no element", () => {
    refuses({ padding: [2, 0, 0, 0] }, "padding");
    refuses({ padding: [0, 0, 2, 0] }, "padding");
    assert.deepEqual(outputOf({ padding: [1, 2, 1, 2] }), [5, 4]);
    // The places of a window are further apart than the input is wide.
    const narrow = { inputShape: [1, 1, 2, 2], kernel: [2, 2], dilation: [3, 3], stride: [1, 1] };
    refuses({ ...narrow, padding: [1, 1, 2, 2] }, "padding");
    assert.deepEqual(outputOf({ ...narrow, padding: [3, 3, 3, 3], stride: [3, 3] }), [2, 2]);
    refuses({ ...narrow, padding: [3, 3, 1, 1] }, "padding");
    assert.throws(() => resolve("pool2d", { ...plain, padding: [2, 0, 0, 0] }), "windows without any");
  });

  it("refuses bad kinds, types, extents and combinations", () => {
    for (const kind of ["min", "average", undefined]) refuses({ kind }, "kind");
    for (const dtype of ["i32", "u8"]) refuses({ dtype }, "dtype");
    refuses({ layout: "CHWN" }, "layout");
    refuses({ inputShape: [3, 8, 10] }, "inputShape");
    refuses({ kernel: [0, 1] }, "kernel[0]");
    refuses({ kernel: [9, 1] }, "kernel");
    refuses({ stride: [1, 0] }, "stride[1]");
    refuses({ dilation: [0, 1] }, "dilation[0]");
    refuses({ padding: [1, 1] }, "padding");
    refuses({ padding: [2 ** 30, 0, 0, 0] }, "padding");
    refuses({ countPadding: true }, "countPadding");
    refuses({ kind: "mean", indices: place(3) }, "indices");
    refuses({ inputShape: [1, 1, 0, 4] }, "kernel");
    assert.deepEqual(pool2dKinds, ["max", "mean"]);
  });

  it("has nothing to do without images or channels", () => {
    for (const inputShape of [
      [0, 3, 8, 10],
      [2, 0, 8, 10],
    ])
      assert.deepEqual(resolve("pool2d", { ...plain, inputShape } as never), {
        problem: undefined,
        fills: [],
      });
  });

  it("refuses outputs that overlap an input, or one another", () => {
    refuses({ output: place(1) }, "output");
    refuses({ indices: place(1) }, "indices");
    refuses({ indices: place(2) }, "indices");
    assert.isDefined(
      problemOf("pool2d", { ...plain, output: slice(1, 1920), indices: slice(1, 1920 + 288) }),
    );
  });
});
