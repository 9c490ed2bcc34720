import { costOf, type SelectArguments } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: SelectArguments = { condition: place(1), a: place(2), b: place(3), output: place(4), n: 24 };

const shaped = (
  conditionShape: readonly number[],
  shapeA?: readonly number[],
  shapeB?: readonly number[],
) => ({
  ...{ condition: place(1), a: place(2), b: place(3), output: place(4), conditionShape },
  ...(shapeA === undefined ? { a: { scalar: 2 } } : { shapeA }),
  ...(shapeB === undefined ? { b: { scalar: -1 } } : { shapeB }),
});

function refuses(change: object, argument: string, message = /./): void {
  throws("INVALID_ARGUMENT", () => resolve("select", { ...plain, ...change }), argument);
  assert.throws(() => resolve("select", { ...plain, ...change }), message);
}

describe("select descriptor", () => {
  it("is a problem of map", () => {
    const { shape, steps, inputs, parameters } = problemOf("select", plain);
    assert.deepEqual(shape, [24]);
    assert.deepEqual(
      steps.map(({ step }) => step),
      ["input", "input", "input", "select"],
    );
    assert.deepEqual(
      inputs.map(({ dtype }) => dtype),
      ["u8", "f32", "f32"],
    );
    assert.deepEqual(parameters, []);
    const same = problemOf("map", {
      ...{ shape: [5], inputs: [place(1), place(2), place(3)], inputTypes: ["u8", "f32", "f32"] },
      ...{ nodes: [{ input: 0 }, { input: 1 }, { input: 2 }, { select: 0, a: 1, b: 2 }], results: [3] },
      outputs: [place(4)],
    });
    assert.equal(problemOf("select", plain).key, same.key);
  });

  it("broadcasts all three, and takes scalars for a, b or both", () => {
    const strides = (args: SelectArguments) => problemOf("select", args).inputs.map((input) => input.strides);
    assert.deepEqual(problemOf("select", shaped([3, 4], [4], [2, 1, 1])).shape, [2, 3, 4]);
    assert.deepEqual(strides(shaped([3, 4], [4], [2, 1, 1])), [
      [0, 4, 1],
      [0, 0, 1],
      [1, 0, 0],
    ]);
    assert.deepEqual(strides(shaped([3, 4])), [[1]]);
    assert.deepEqual(problemOf("select", shaped([3, 4])).parameters, [
      { type: "f32", value: 2 },
      { type: "f32", value: -1 },
    ]);
    assert.deepEqual(problemOf("select", { ...plain, dtype: "u8", a: { scalar: 255 } }).parameters, [
      { type: "u32", value: 255 },
    ]);
  });

  it("refuses shapes that do not fit, and says which", () => {
    refuses(
      { ...shaped([3, 4], [2, 4], [4]), n: undefined },
      "shapeA",
      /\[2, 4\] does not broadcast with conditionShape \[3, 4\]/,
    );
    refuses({ ...shaped([3, 4], [4], [3]), n: undefined }, "shapeB");
    refuses(
      { ...shaped([3, 4], [4], [4]), n: undefined, outputShape: [4] },
      "outputShape",
      /allowed: \[3, 4\]/,
    );
    refuses({ conditionShape: [24] }, "n");
    refuses({ n: undefined, shapeA: [24], shapeB: [24] }, "conditionShape");
    refuses({ n: undefined, conditionShape: [2], a: { scalar: 1 }, shapeA: [2], shapeB: [2] }, "shapeA");
  });

  it("refuses scalars that are no numbers of the type, and other types", () => {
    refuses({ a: { scalar: 0.5 }, dtype: "i32" }, "a.scalar");
    refuses({ b: { scalar: 256 }, dtype: "u8" }, "b.scalar");
    refuses({ dtype: "bf16" }, "dtype");
  });

  it("takes an output over a or b of the same size alone", () => {
    problemOf("select", { ...plain, output: place(2) });
    problemOf("select", { ...plain, output: place(3) });
    refuses({ output: place(1), dtype: "u8" }, "output");
    refuses({ output: place(3), n: undefined, conditionShape: [24], shapeA: [24], shapeB: [2, 1] }, "output");
    refuses({ output: slice(2, 4) }, "output");
  });

  it("leaves nothing to do without elements, and costs what the operands hold", () => {
    assert.isUndefined(resolve("select", { ...plain, n: 0 }).problem);
    assert.deepEqual(costOf("select", plain), { flops: 24, bytes: 24 * 13 });
  });
});
