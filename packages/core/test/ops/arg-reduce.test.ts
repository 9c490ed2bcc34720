import { type ArgReduceArguments, argReduceKinds, costOf } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: ArgReduceArguments = { kind: "argMax", shape: [2, 3, 4], input: place(1), output: place(2) };

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("argReduce", { ...plain, ...change }), argument);
}

function extentsOf(change: object): readonly number[] {
  const { outer, length, inner } = problemOf("argReduce", { ...plain, ...change });
  return [outer, length, inner];
}

describe("argReduce descriptor", () => {
  it("merges the axes before and after its own, which is the last by default", () => {
    assert.deepEqual(extentsOf({}), [6, 4, 1]);
    assert.deepEqual(extentsOf({ axis: -2 }), [2, 3, 4]);
    assert.deepEqual(extentsOf({ axis: 0 }), [1, 2, 12]);
    assert.deepEqual(extentsOf({ shape: [5] }), [1, 5, 1]);
    assert.deepEqual(extentsOf({ shape: [1, 2, 3, 4, 5, 1, 1, 2], axis: 3 }), [6, 4, 10]);
  });

  it("has results of four bytes, whatever its elements have", () => {
    for (const [dtype, bytes] of [
      ["f32", 96],
      ["f16", 48],
      ["i32", 96],
      ["u32", 96],
    ] as const) {
      const { input, output } = problemOf("argReduce", { ...plain, dtype });
      assert.equal(input.byteLength, bytes);
      assert.equal(output.byteLength, 24);
    }
    assert.deepEqual(costOf("argReduce", { ...plain, dtype: "f16" }), { flops: 24, bytes: 72 });
  });

  it("refuses bad kinds, types, shapes and axes", () => {
    for (const kind of ["max", "argmax", undefined]) refuses({ kind }, "kind");
    for (const dtype of ["u8", "bf16", "f64"]) refuses({ dtype }, "dtype");
    refuses({ shape: [2, -3, 4] }, "shape[1]");
    refuses({ shape: [2 ** 30, 2 ** 30] }, "shape");
    for (const axis of [3, -4, 0.5, "1", null, [1]]) refuses({ axis }, "axis");
    refuses({ shape: [] }, "axis");
    refuses({ axes: [1] }, "axes");
    assert.deepEqual(argReduceKinds, ["argMax", "argMin"]);
  });

  it("refuses results of no elements, and places that i32 does not hold", () => {
    refuses({ shape: [3, 0] }, "shape[1]");
    refuses({ shape: [0, 3, 2], axis: 0 }, "shape[0]");
    refuses({ shape: [0] }, "shape[0]");
    refuses({ shape: [2 ** 31 + 1] }, "shape[0]");
    assert.throws(() => resolve("argReduce", { ...plain, shape: [3, 0] }), "allowed: 1 to 2147483648");
  });

  it("has nothing to do for no results", () => {
    for (const change of [
      { shape: [0, 3] },
      { shape: [0, 0] },
      { shape: [3, 0], axis: 0 },
      { shape: [0, 3, 2 ** 40, 2 ** 40], axis: 1 },
    ])
      assert.deepEqual(resolve("argReduce", { ...plain, ...change }), { problem: undefined, fills: [] });
  });

  it("refuses an output that overlaps its input", () => {
    refuses({ output: place(1) }, "output");
    refuses({ output: slice(1, 92) }, "output");
    assert.isDefined(problemOf("argReduce", { ...plain, output: slice(1, 96) }));
  });
});
