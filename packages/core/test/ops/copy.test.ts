import { type CopyArguments, costOf, createBackend, dtypes, mostAxes } from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: CopyArguments = { shape: [3, 4], inputStrides: [1, 3], input: place(1), output: place(2) };

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("copy", { ...plain, ...change }), argument);
}

/** The axes of the problem: extent, stride of the input, stride of the output. */
function axesOf(change: object): readonly (readonly number[])[] {
  const { shape, inputStrides, outputStrides } = problemOf("copy", { ...plain, ...change });
  return shape.map((extent, i) => [extent, inputStrides[i]!, outputStrides[i]!]);
}

describe("copy descriptor", () => {
  it("has contiguous strides by default", () => {
    assert.deepEqual(axesOf({}), [
      [3, 1, 4],
      [4, 3, 1],
    ]);
    assert.deepEqual(axesOf({ inputStrides: undefined }), [[12, 1, 1]]);
    assert.deepEqual(axesOf({ shape: [], inputStrides: [] }), []);
  });

  it("drops axes of extent 1, whatever their strides, and merges what continues in both operands", () => {
    assert.deepEqual(
      axesOf({ shape: [1, 12, 1], inputStrides: [-7, 2, 0], outputStrides: [0, 3, 2 ** 50] }),
      [[12, 2, 3]],
    );
    assert.deepEqual(axesOf({ shape: [2, 3, 4, 5], inputStrides: [60, 20, 1, 4] }), [
      [6, 20, 20],
      [4, 1, 5],
      [5, 4, 1],
    ]);
    // A repeated axis inside of a repeated one, and a row that goes on in the input alone.
    assert.deepEqual(axesOf({ shape: [2, 3, 4], inputStrides: [0, 0, 1] }), [
      [6, 0, 4],
      [4, 1, 1],
    ]);
    assert.lengthOf(axesOf({ inputStrides: [4, 1], outputStrides: [5, 1] }), 2);
  });

  it("sorts axes by the output's strides", () => {
    assert.deepEqual(axesOf({ shape: [2, 3, 4], inputStrides: [12, 4, 1], outputStrides: [1, 9, 2] }), [
      [3, 4, 9],
      [4, 1, 2],
      [2, 12, 1],
    ]);
  });

  it("turns axes so that the output's strides are positive", () => {
    const { inputStart, inputStrides, outputStrides, output } = problemOf("copy", {
      ...plain,
      ...{ shape: [5], inputStrides: [2], outputStrides: [-3], output: slice(2, 48) },
    });
    assert.deepEqual(
      { inputStart, inputStrides, outputStrides },
      { inputStart: 8, inputStrides: [-2], outputStrides: [3] },
    );
    assert.equal(output.byteLength, 13 * 4);
    // Turned in both: as if in neither.
    assert.deepEqual(axesOf({ shape: [5], inputStrides: [-1], outputStrides: [-1] }), [[5, 1, 1]]);
  });

  it("reaches from the first place to the last", () => {
    const { input, inputStart, output } = problemOf("copy", {
      ...plain,
      ...{
        shape: [3, 4, 2],
        inputStrides: [-10, 0, 1],
        outputStrides: [20, 2, 1],
        dtype: "u8",
        outputDtype: "i32",
      },
    });
    assert.equal(input.byteLength, 22);
    assert.equal(inputStart, 20);
    assert.equal(output.byteLength, 4 * (40 + 6 + 1 + 1));
  });

  it("refuses what is no shape or no list of strides for it", () => {
    refuses({ shape: 12 }, "shape");
    refuses({ shape: new Array(mostAxes + 1).fill(1), inputStrides: undefined }, "shape");
    for (const inputStrides of [[1], [1, 2, 3], 3, [1, 0.5], [1, 2 ** 53], [1, "2"], [undefined, 1]])
      throws("INVALID_ARGUMENT", () => resolve("copy", { ...plain, inputStrides } as never));
    refuses({ inputStrides: [0.5, 1] }, "inputStrides[0]");
    refuses({ dtype: "f64" }, "dtype");
    refuses({ outputDtype: "f64" }, "outputDtype");
  });

  it("refuses outputs with two elements in one place, and says what is allowed", () => {
    for (const outputStrides of [
      [0, 1],
      [4, 0],
      [1, 1],
      [3, 1],
      [1, 2],
      [-3, 1],
      [3, -1],
    ])
      refuses({ outputStrides }, "outputStrides");
    assert.match(
      throws("INVALID_ARGUMENT", () => resolve("copy", { ...plain, outputStrides: [3, 1] })).message,
      /a stride of 3 where smaller ones reach 3 elements far; allowed: /,
    );
    for (const outputStrides of [
      [4, 1],
      [1, 3],
      [-4, 1],
      [1, -3],
      [100, 7],
    ])
      assert.isDefined(problemOf("copy", { ...plain, outputStrides }));
  });

  it("refuses an output that meets its input", () => {
    refuses({ output: place(1) }, "output");
    refuses({ output: slice(1, 44) }, "output");
    // Places between those of the other operand, too.
    refuses({ shape: [4], inputStrides: [2], outputStrides: [2], output: slice(1, 4) }, "output");
    refuses({ inputStrides: undefined, output: place(1), outputDtype: "i32" }, "output");
    assert.isDefined(problemOf("copy", { ...plain, output: slice(1, 48) }));
  });

  it("has nothing to do for no elements, or onto the same places", () => {
    const nothing = { problem: undefined, fills: [] };
    for (const shape of [
      [0, 4],
      [3, 0],
      [2 ** 40, 0],
    ])
      assert.deepEqual(resolve("copy", { ...plain, shape, outputStrides: [0, 0] }), nothing);
    const strides = [7, -1];
    assert.deepEqual(
      resolve("copy", { ...plain, output: place(1), inputStrides: strides, outputStrides: strides }),
      nothing,
    );
  });

  it("has its input's type, unless it is given another", () => {
    for (const dtype of dtypes) {
      assert.include(problemOf("copy", { ...plain, dtype }), { dtype, outputDtype: dtype });
      assert.include(problemOf("copy", { ...plain, dtype, outputDtype: "u8" }), { dtype, outputDtype: "u8" });
    }
  });

  it("counts what is read and written", () => {
    assert.deepEqual(costOf("copy", plain), { flops: 0, bytes: 96 });
    assert.deepEqual(costOf("copy", { ...plain, outputDtype: "f16" }), { flops: 12, bytes: 72 });
    assert.deepEqual(costOf("copy", { ...plain, inputStrides: [0, 1] }), { flops: 0, bytes: 16 + 48 });
    // Windows that overlap, and steps that leave most of the input out.
    assert.deepEqual(costOf("copy", { ...plain, inputStrides: [1, 1] }), { flops: 0, bytes: 24 + 48 });
    assert.deepEqual(costOf("copy", { ...plain, inputStrides: [100, 10] }), { flops: 0, bytes: 96 });
    assert.deepEqual(costOf("copy", { ...plain, shape: [3, 0] }), { flops: 0, bytes: 0 });
  });

  it("finds every place that is not in its operand", async () => {
    const driver = new FakeDriver();
    const backend = createBackend(driver);
    await backend.init();
    const [input, output] = [backend.alloc(12 * 4), backend.alloc(12 * 4)];
    const call = (change: object) => () => backend.copy({ ...plain, input, output, ...change });
    call({})();
    const at = (handle: typeof input, elements: number) => ({ handle, byteOffset: 4 * elements });
    call({ inputStrides: [-1, -3], input: at(input, 11) })();
    for (const [change, argument] of [
      [{ inputStrides: [1, 4] }, "input"],
      [{ inputStrides: [-1, 1] }, "input"],
      [{ inputStrides: [-1, -3], input: at(input, 10) }, "input"],
      [{ input: at(input, 1) }, "input"],
      [{ outputStrides: [5, 1] }, "output"],
      [{ outputStrides: [4, -1], output: at(output, 2) }, "output"],
    ] as const)
      throws("OUT_OF_BOUNDS", call(change), argument);
    await backend.dispose();
  });
});
