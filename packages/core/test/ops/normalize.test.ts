import { costOf, type NormalizeArguments, normalizeKinds } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: NormalizeArguments = { kind: "layer", rows: 3, size: 8, input: place(1), output: place(2) };
const whole: NormalizeArguments = {
  ...plain,
  ...{ weight: place(3), bias: place(4), mean: place(5), inverseDeviation: place(6) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("normalize", { ...whole, ...change }), argument);
}

describe("normalize descriptor", () => {
  it("fills in what is left out", () => {
    const { epsilon, weight, bias, mean, inverseDeviation, dtype } = problemOf("normalize", plain);
    assert.deepEqual([epsilon, dtype], [Math.fround(1e-5), "f32"]);
    assert.deepEqual([weight, bias, mean, inverseDeviation], [undefined, undefined, undefined, undefined]);
  });

  it("keeps statistics in f32, whatever the type of the data", () => {
    const bytes = (dtype: "f32" | "f16") => {
      const { input, weight, bias, output, mean, inverseDeviation } = problemOf("normalize", {
        ...whole,
        dtype,
      });
      return [input, weight, bias, output, mean, inverseDeviation].map((region) => region!.byteLength);
    };
    assert.deepEqual(bytes("f32"), [96, 32, 32, 96, 12, 12]);
    assert.deepEqual(bytes("f16"), [48, 16, 16, 48, 12, 12]);
  });

  it("refuses bad kinds, extents and factors", () => {
    refuses({ kind: "batch" }, "kind");
    refuses({ kind: undefined }, "kind");
    refuses({ rows: -1 }, "rows");
    refuses({ size: 1.5 }, "size");
    refuses({ rows: 2 ** 30, size: 2 ** 30 }, "size");
    for (const epsilon of [-1e-5, Number.NaN, Number.POSITIVE_INFINITY, 1e39, "1"])
      refuses({ epsilon }, "epsilon");
    assert.equal(problemOf("normalize", { ...plain, epsilon: 0 }).epsilon, 0);
    refuses({ dtype: "f64" }, "dtype");
    refuses({ gamma: place(3) }, "gamma");
  });

  it("takes exactly its input as output, and refuses any other overlap", () => {
    const { input, output } = problemOf("normalize", { ...whole, output: place(1) });
    assert.deepEqual(output, input);
    refuses({ output: slice(1, 4) }, "output");
    refuses({ output: place(3) }, "output");
    refuses({ output: slice(4, 28) }, "output");
    for (const name of ["mean", "inverseDeviation"])
      for (const handle of [1, 2, 3, 4]) refuses({ [name]: slice(handle, 4) }, name);
    refuses({ inverseDeviation: place(5) }, "inverseDeviation");
    refuses({ inverseDeviation: slice(5, 8) }, "inverseDeviation");
    assert.isDefined(problemOf("normalize", { ...whole, inverseDeviation: slice(5, 12) }));
  });

  it("has a mean with layer only, and statistics of rows with elements only", () => {
    refuses({ kind: "rms" }, "mean");
    assert.isDefined(problemOf("normalize", { ...whole, kind: "rms", mean: undefined } as never));
    refuses({ size: 0 }, "size");
    refuses({ size: 0, mean: undefined }, "size");
  });

  it("has nothing to do for no elements", () => {
    for (const extents of [{ rows: 0 }, { size: 0 }, { rows: 0, size: 2 ** 52 }])
      assert.deepEqual(resolve("normalize", { ...plain, ...extents }), { problem: undefined, fills: [] });
    assert.isUndefined(resolve("normalize", { ...whole, rows: 0 }).problem);
  });

  it("knows its kinds", () => {
    assert.deepEqual(normalizeKinds, ["layer", "rms"]);
  });

  it("counts the operations of the formula, and the bytes of what is given", () => {
    assert.deepEqual(costOf("normalize", plain), { flops: 120, bytes: 192 });
    assert.deepEqual(costOf("normalize", whole), { flops: 168, bytes: 192 + 64 + 24 });
    assert.deepEqual(costOf("normalize", { ...plain, kind: "rms", weight: place(3), dtype: "f16" }), {
      ...{ flops: 96, bytes: 112 },
    });
    assert.deepEqual(costOf("normalize", { ...plain, rows: 0 }), { flops: 0, bytes: 0 });
  });
});
