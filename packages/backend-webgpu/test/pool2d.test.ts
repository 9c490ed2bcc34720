// Tags: kernels, pure
import type { Pool2dArguments } from "@backplane/core";
import { assert } from "chai";
import type { Problem } from "#src/kernels/pool2d/problem.js";
import { planPool2d } from "#src/kernels/pool2d/select.js";
import { describeTwoDimensions, problemAt } from "./images.js";

describeTwoDimensions("pool2d", ["takes the most frequent windows", "finds the first place of the maximum"]);

type Shape = Omit<Pool2dArguments, "input" | "output">;

/** The problem of a call whose operands begin at these bytes. */
function problemOf(shape: Shape, input = 0, output = 0): Problem {
  const args = { ...shape, input: 1 as never, output: 1 as never };
  return problemAt("pool2d", args, { input, output });
}

describe("webgpu pool2d plans", () => {
  const plain: Shape = {
    ...{ kind: "max", inputShape: [2, 3, 56, 112], kernel: [3, 3], stride: [2, 2], padding: [1, 1, 1, 1] },
  };
  const formOf = (change: Partial<Shape>, input?: number, output?: number) =>
    planPool2d(problemOf({ ...plain, ...change }, input, output)).form;

  it("take strips for frequent windows on whole vectors, and one window at a time for all others", () => {
    assert.equal(formOf({}), "strips");
    assert.equal(formOf({ kernel: [2, 2], stride: [2, 2], padding: [0, 0, 0, 0] }), "strips");
    assert.equal(formOf({ dtype: "f16" }), "strips");
    for (const change of [
      { kernel: [4, 4] as const },
      { kernel: [3, 2] as const },
      { stride: [2, 1] as const },
      { stride: [3, 3] as const },
      { padding: [1, 2, 1, 1] as const },
      { dilation: [1, 2] as const, padding: [1, 1, 1, 3] as const },
      { layout: "NHWC" as const },
      { inputShape: [2, 3, 56, 113] as const },
      // 54 results in a row.
      { inputShape: [2, 3, 56, 108] as const },
      { indices: 1 as never },
    ])
      assert.equal(formOf(change), "each", JSON.stringify(change));
    assert.equal(formOf({}, 4), "each");
    assert.equal(formOf({}, 16, 8), "each");
    assert.equal(formOf({ dtype: "f16" }, 8, 16), "strips");
  });

  it("take four channels at a time where they are whole vectors", () => {
    const vectorOf = (inputShape: Pool2dArguments["inputShape"], output = 0) => {
      const plan = planPool2d(problemOf({ ...plain, layout: "NHWC", inputShape }, 0, output));
      return plan.form === "each" ? plan.tile.vector : undefined;
    };
    assert.equal(vectorOf([2, 9, 9, 8]), 4);
    assert.equal(vectorOf([2, 9, 9, 6]), 1);
    assert.equal(vectorOf([2, 9, 9, 8], 4), 1);
  });

  it("start one invocation for each word that a result is in", () => {
    const odd = { inputShape: [1, 1, 1, 1025] as const, kernel: [1, 2] as const, stride: [1, 2] as const };
    const groups = (output: number) =>
      planPool2d(problemOf({ ...odd, kind: "max", dtype: "f16" }, 0, output)).workgroups;
    assert.deepEqual([groups(0), groups(2)], [1, 2]);
  });
});
