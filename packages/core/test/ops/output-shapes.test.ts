import {
  conv2dInputShape,
  conv2dOutputShape,
  type Pool2dShapeArguments,
  pool2dOutputShape,
} from "@backplane/core";
import { assert } from "chai";
import { place, problemOf } from "../support/resolve.js";

describe("shapes of images", () => {
  it("are those that conv2d makes, in either layout", () => {
    for (const change of [
      {},
      { stride: [2, 3] as const, padding: [1, 0, 2, 3] as const },
      { dilation: [2, 4] as const, padding: [0, 2, 0, 1] as const, stride: [1, 2] as const },
    ])
      for (const layout of ["NCHW", "NHWC"] as const) {
        const inputShape = layout === "NCHW" ? ([2, 4, 7, 9] as const) : ([2, 7, 9, 4] as const);
        const args = { inputShape, filterShape: [6, 4, 3, 2] as const, layout, ...change };
        const operands = { input: place(1), filter: place(2), output: place(3) };
        const { outHeight, outWidth } = problemOf("conv2d", { ...args, ...operands });
        const shape = conv2dOutputShape(args);
        assert.deepEqual(
          shape,
          layout === "NCHW" ? [2, 6, outHeight, outWidth] : [2, outHeight, outWidth, 6],
        );
        // The smallest input: with one row less there would be one row less.
        const least = conv2dInputShape({ ...args, outputShape: shape });
        assert.deepEqual(conv2dOutputShape({ ...args, inputShape: least }), shape);
        const rows = layout === "NCHW" ? 2 : 1;
        const fewer = least.with(rows, least[rows]! - 1) as unknown as typeof least;
        assert.equal(conv2dOutputShape({ ...args, inputShape: fewer })[rows], outHeight - 1);
      }
  });

  it("have the channels of all groups before a transposed convolution", () => {
    const outputShape = [1, 6, 5, 5] as const;
    assert.deepEqual(conv2dInputShape({ outputShape, filterShape: [6, 2, 3, 3], groups: 3 }), [1, 6, 7, 7]);
  });

  it("are those that pool2d makes, rounded down or up", () => {
    const plain: Pool2dShapeArguments = { inputShape: [2, 3, 8, 10], kernel: [2, 3] };
    for (const change of [
      {},
      { ceil: true },
      { stride: [9, 5] as const, padding: [0, 0, 1, 0] as const, ceil: true },
      { dilation: [2, 3] as const, stride: [1, 2] as const },
    ]) {
      const args = { ...plain, ...change };
      const { outHeight, outWidth } = problemOf("pool2d", {
        ...{ ...args, kind: "max", input: place(1), output: place(2) },
      });
      assert.deepEqual(pool2dOutputShape(args), [2, 3, outHeight, outWidth]);
    }
    assert.deepEqual(pool2dOutputShape({ ...plain, layout: "NHWC" }), [2, 1, 2, 10]);
  });

  it("are empty where no window fits", () => {
    assert.deepEqual(
      conv2dOutputShape({ inputShape: [1, 1, 2, 9], filterShape: [1, 1, 4, 2] }),
      [1, 1, 0, 8],
    );
    assert.deepEqual(pool2dOutputShape({ inputShape: [1, 1, 4, 2], kernel: [2, 9] }), [1, 1, 2, 0]);
  });
});
