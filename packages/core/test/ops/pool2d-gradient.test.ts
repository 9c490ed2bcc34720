import { costOf, operations, type Pool2dGradientArguments } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: Pool2dGradientArguments = {
  ...{ kind: "mean", inputShape: [2, 3, 8, 10], kernel: [2, 3] },
  ...{ outputGradient: place(1), inputGradient: place(2) },
};
const largest = { kind: "max", indices: place(3) } as const;

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("pool2dGradient", { ...plain, ...change }), argument);
}

describe("pool2dGradient descriptor", () => {
  it("has the windows of pool2d", () => {
    for (const change of [
      {},
      { layout: "NHWC", stride: [1, 2] },
      { padding: [1, 0, 0, 2], ceil: true, stride: [5, 5], countPadding: true },
      { kernel: [1, 3], dilation: [2 ** 40, 2], stride: [2 ** 40, 1] },
    ] as const) {
      const {
        outputGradient: _1,
        indices: _2,
        inputGradient: _3,
        ...own
      } = problemOf("pool2dGradient", {
        ...plain,
        ...change,
      });
      const { outputGradient: input, inputGradient: output, ...windows } = plain;
      const forward = problemOf("pool2d", { ...windows, ...change, input, output });
      const { input: _4, output: _5, indices: _6, ...its } = forward;
      assert.deepEqual(own, its);
    }
    const shared = Object.keys(operations.pool2d.arguments).filter(
      (name) => !["input", "output"].includes(name),
    );
    assert.includeMembers([...operations.pool2dGradient.names], shared);
  });

  it("takes one index for each gradient", () => {
    const { outputGradient, indices, inputGradient } = problemOf("pool2dGradient", {
      ...{ ...plain, ...largest },
      dtype: "f16",
    });
    assert.deepEqual(
      [outputGradient, indices!, inputGradient].map(({ byteLength }) => byteLength),
      [2 * 72, 4 * 72, 2 * 480],
    );
    assert.deepEqual(costOf("pool2dGradient", { ...plain, ...largest }), {
      ...{ flops: 72 * 6, bytes: 2 * 288 + 1920 },
    });
    assert.isUndefined(problemOf("pool2dGradient", plain).indices);
  });

  it("refuses a maximum without indices, and a mean with them", () => {
    refuses({ kind: "max" }, "indices");
    refuses({ indices: place(3) }, "indices");
    refuses({ ...largest, countPadding: true }, "countPadding");
    refuses({ kind: "sum" }, "kind");
    refuses({ dtype: "i32" }, "dtype");
    refuses({ outputShape: [2, 3, 3, 4] }, "outputShape");
    refuses({ padding: [2, 0, 0, 0] }, "padding");
    refuses({ ...largest, inputShape: [1, 1, 2 ** 16, 2 ** 16] }, "inputShape");
  });

  it("has nothing to do without images or channels", () => {
    for (const inputShape of [
      [0, 3, 8, 10],
      [2, 0, 8, 10],
    ])
      assert.deepEqual(resolve("pool2dGradient", { ...plain, inputShape } as never), {
        ...{ problem: undefined, fills: [] },
      });
  });

  it("refuses an output that overlaps an input", () => {
    refuses({ inputGradient: place(1) }, "inputGradient");
    refuses({ ...largest, inputGradient: place(3) }, "inputGradient");
    assert.isDefined(problemOf("pool2dGradient", { ...plain, inputGradient: slice(1, 288) }));
    // The same gradients may stand for indices: both are only read.
    assert.isDefined(problemOf("pool2dGradient", { ...plain, ...largest, indices: place(1) }));
  });
});
