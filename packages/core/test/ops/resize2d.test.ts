import { costOf, type Resize2dArguments, resize2dKinds } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: Resize2dArguments = {
  ...{ kind: "nearest", inputShape: [2, 3, 4, 6], outputHeight: 8, outputWidth: 9 },
  ...{ input: place(1), output: place(2) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("resize2d", { ...plain, ...change }), argument);
}

/** Factor, shift and divisor of rows, and of columns. */
function axesOf(change: object): readonly (readonly number[])[] {
  const { y, x } = problemOf("resize2d", { ...plain, ...change });
  return [y, x].map(({ factor, shift, divisor }) => [factor, shift, divisor]);
}

describe("resize2d descriptor", () => {
  it("has one form for both layouts", () => {
    const extents = (change: object) => {
      const { planes, height, width, inner, outHeight, outWidth, output } = problemOf("resize2d", {
        ...plain,
        ...change,
      });
      return [planes, height, width, inner, outHeight, outWidth, output.byteLength];
    };
    assert.deepEqual(extents({}), [6, 4, 6, 1, 8, 9, 1728]);
    assert.deepEqual(extents({ layout: "NHWC" }), [2, 3, 4, 6, 8, 9, 3456]);
  });

  it("has places as fractions in lowest terms", () => {
    // floor((y + 1/2) / 2) and floor((x + 1/2) * 2/3)
    assert.deepEqual(axesOf({}), [
      [2, 1, 4],
      [2, 1, 3],
    ]);
    assert.deepEqual(axesOf({ coordinates: "half-pixel", kind: "bilinear" }), [
      [2, -1, 4],
      [4, -1, 6],
    ]);
    assert.deepEqual(axesOf({ coordinates: "asymmetric" }), [
      [1, 0, 2],
      [2, 0, 3],
    ]);
    // The middle between two elements belongs to the second.
    assert.deepEqual(axesOf({ coordinates: "align-corners" }), [
      [6, 7, 14],
      [5, 4, 8],
    ]);
    assert.deepEqual(axesOf({ coordinates: "align-corners", kind: "bilinear" }), [
      [3, 0, 7],
      [5, 0, 8],
    ]);
  });

  it("has the simplest form of what stays as it is, and of one element", () => {
    for (const coordinates of ["half-pixel", "align-corners", "asymmetric"])
      for (const kind of resize2dKinds) {
        assert.deepEqual(axesOf({ coordinates, kind, outputHeight: 4, outputWidth: 6 }), [
          [1, 0, 1],
          [1, 0, 1],
        ]);
        assert.deepEqual(axesOf({ coordinates, kind, inputShape: [2, 3, 1, 1] }), [
          [0, 0, 1],
          [0, 0, 1],
        ]);
      }
    assert.deepEqual(axesOf({ coordinates: "align-corners", outputHeight: 1 })[0], [0, 0, 1]);
  });

  it("counts no more of the input than results are made of", () => {
    assert.deepEqual(costOf("resize2d", plain), { flops: 0, bytes: 576 + 1728 });
    const one = { outputHeight: 1, outputWidth: 1, dtype: "f16" } as const;
    assert.deepEqual(costOf("resize2d", { ...plain, ...one }), { flops: 0, bytes: 12 + 12 });
    assert.deepEqual(costOf("resize2d", { ...plain, ...one, kind: "bilinear" }), {
      ...{ flops: 48, bytes: 48 + 12 },
    });
  });

  it("refuses bad kinds, types, extents and coordinates", () => {
    for (const kind of ["cubic", "linear", undefined]) refuses({ kind }, "kind");
    for (const dtype of ["bf16", "f64"]) refuses({ dtype }, "dtype");
    refuses({ layout: "HWC" }, "layout");
    refuses({ coordinates: "pytorch" }, "coordinates");
    refuses({ inputShape: [2, 3, 4] }, "inputShape");
    refuses({ outputHeight: -1 }, "outputHeight");
    refuses({ outputWidth: 1.5 }, "outputWidth");
    refuses({ outputWidth: undefined }, "outputWidth");
    refuses({ inputShape: [2, 3, 0, 6] }, "inputShape");
    refuses({ scale: 2 }, "scale");
  });

  it("refuses ratios of too large numbers, and takes large extents in simple ones", () => {
    refuses({ inputShape: [1, 1, 40_001, 1], outputHeight: 40_000 }, "outputHeight");
    refuses({ inputShape: [1, 1, 1, 50_001], outputWidth: 50_000, coordinates: "asymmetric" }, "outputWidth");
    const wide = { inputShape: [1, 1, 1, 2 ** 18], outputHeight: 1, outputWidth: 2 ** 19 };
    assert.deepEqual(axesOf(wide)[1], [2, 1, 4]);
    refuses({ inputShape: [1, 1, 1, 2 ** 30], outputHeight: 1, outputWidth: 3 }, "outputWidth");
  });

  it("has nothing to do without results", () => {
    for (const change of [{ inputShape: [0, 3, 4, 6] }, { outputHeight: 0 }, { inputShape: [2, 0, 0, 6] }])
      assert.deepEqual(resolve("resize2d", { ...plain, ...change } as never), {
        ...{ problem: undefined, fills: [] },
      });
  });

  it("refuses an output that overlaps its input", () => {
    refuses({ output: place(1) }, "output");
    assert.isDefined(problemOf("resize2d", { ...plain, output: slice(1, 576) }));
  });
});
