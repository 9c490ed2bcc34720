import { costOf, type SoftmaxArguments, softmaxKinds } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: SoftmaxArguments = { kind: "softmax", shape: [2, 3, 4], input: place(1), output: place(2) };

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("softmax", { ...plain, ...change }), argument);
}

function extentsOf(change: object): readonly number[] {
  const { outer, length, inner } = problemOf("softmax", { ...plain, ...change });
  return [outer, length, inner];
}

describe("softmax descriptor", () => {
  it("merges the axes before and after its own", () => {
    assert.deepEqual(extentsOf({ axis: 0 }), [1, 2, 12]);
    assert.deepEqual(extentsOf({ axis: 1 }), [2, 3, 4]);
    assert.deepEqual(extentsOf({ axis: 2 }), [6, 4, 1]);
    assert.deepEqual(extentsOf({ shape: [5] }), [1, 5, 1]);
    assert.deepEqual(extentsOf({ shape: [2, 3, 4, 5, 6, 7], axis: 3 }), [24, 5, 42]);
    assert.deepEqual(extentsOf({ shape: [1, 1, 1], axis: 1 }), [1, 1, 1]);
  });

  it("takes the last axis by default, and counts negative ones from the last", () => {
    assert.deepEqual(extentsOf({}), [6, 4, 1]);
    assert.deepEqual(extentsOf({ axis: -1 }), [6, 4, 1]);
    assert.deepEqual(extentsOf({ axis: -2 }), [2, 3, 4]);
    assert.deepEqual(extentsOf({ axis: -3 }), [1, 2, 12]);
  });

  it("refuses bad kinds, shapes and axes", () => {
    refuses({ kind: "softmin" }, "kind");
    refuses({ kind: undefined }, "kind");
    refuses({ shape: 24 }, "shape");
    refuses({ shape: [2, -3, 4] }, "shape[1]");
    refuses({ shape: [2 ** 30, 2 ** 30] }, "shape");
    for (const axis of [3, -4, 0.5, "1", 1n, null, [1], Number.NaN]) refuses({ axis }, "axis");
    refuses({ dtype: "f64" }, "dtype");
    refuses({ axes: [1] }, "axes");
  });

  it("refuses a shape without axes, whatever the axis", () => {
    for (const axis of [undefined, -1, 0]) refuses({ shape: [], axis }, "axis");
    refuses({ shape: [0, 3], axis: 2 }, "axis");
  });

  it("takes exactly its input as output, and refuses any other overlap", () => {
    const { input, output } = problemOf("softmax", { ...plain, output: place(1) });
    assert.deepEqual(output, input);
    refuses({ output: slice(1, 4) }, "output");
    refuses({ input: slice(2, 92) }, "output");
    assert.isDefined(problemOf("softmax", { ...plain, output: slice(1, 96) }));
  });

  it("has nothing to do for no elements", () => {
    for (const shape of [[0], [0, 3], [3, 0], [2, 0, 4], [0, 2 ** 40, 2 ** 40]])
      assert.deepEqual(resolve("softmax", { ...plain, shape }), { problem: undefined, fills: [] });
  });

  it("knows its kinds", () => {
    assert.deepEqual(softmaxKinds, ["softmax", "logSoftmax"]);
    for (const kind of softmaxKinds) assert.equal(problemOf("softmax", { ...plain, kind }).kind, kind);
  });

  it("counts five operations and two accesses per element", () => {
    assert.deepEqual(costOf("softmax", plain), { flops: 120, bytes: 192 });
    assert.deepEqual(costOf("softmax", { ...plain, dtype: "f16", axis: 1 }), { flops: 120, bytes: 96 });
    assert.deepEqual(costOf("softmax", { ...plain, shape: [3, 0] }), { flops: 0, bytes: 0 });
  });
});
