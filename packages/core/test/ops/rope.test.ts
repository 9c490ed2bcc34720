import type { RopeArguments } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: RopeArguments = {
  ...{ kind: "halves", heads: 2, rows: 3, size: 4, length: 8 },
  ...{ input: place(1), output: place(2), cos: place(3), sin: place(4) },
};

function refuses(change: object, argument: string, message = /./): void {
  throws("INVALID_ARGUMENT", () => resolve("rope", { ...plain, ...change }), argument);
  assert.throws(() => resolve("rope", { ...plain, ...change }), message);
}

describe("rope descriptor", () => {
  it("takes contiguous rows and all of their elements by default", () => {
    const { batch, rotated, input, output, cos } = problemOf("rope", plain);
    assert.deepEqual([batch, rotated], [1, 4]);
    assert.deepEqual([input.byteLength, output.byteLength, cos.byteLength], [96, 96, 64]);
  });

  it("refuses what does not rotate in pairs, and positions that are said twice", () => {
    refuses({ rotated: 3 }, "rotated", /even numbers from 2 to the size, 4/);
    refuses({ rotated: 6 }, "rotated");
    refuses({ positions: place(5), start: 2 }, "start");
    refuses({ length: 0 }, "length");
  });

  it("refuses outputs with two elements at one place, and says which strides it was given", () => {
    refuses(
      { outputStrides: [99, 2, 8] },
      "outputStrides",
      /\[99, 2, 8\] may put two elements into one place/,
    );
    refuses({ outputStrides: [0, 12, 0] }, "outputStrides");
    refuses({ outputStrides: [0, -12, 4] }, "outputStrides[1]");
    assert.doesNotThrow(() => resolve("rope", { ...plain, outputStrides: [0, 4, 8] }));
  });

  it("works in place with the same strides only", () => {
    const strides = [0, 4, 8];
    const inPlace = { ...plain, output: plain.input };
    assert.doesNotThrow(() => resolve("rope", inPlace));
    assert.doesNotThrow(() => resolve("rope", { ...inPlace, inputStrides: strides, outputStrides: strides }));
    refuses({ output: plain.input, inputStrides: strides }, "output");
    refuses({ output: slice(1, 4) }, "output");
    refuses({ output: plain.cos }, "output");
  });
});
