import {
  costOf,
  type NormalizeGradientArguments,
  normalizeKinds,
  type SoftmaxGradientArguments,
} from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

describe("softmaxGradient descriptor", () => {
  const plain: SoftmaxGradientArguments = {
    ...{ kind: "softmax", shape: [2, 3, 4], axis: 1 },
    ...{ output: place(1), outputGradient: place(2), inputGradient: place(3) },
  };

  it("merges the axes around the given one", () => {
    const { outer, length, inner, dtype } = problemOf("softmaxGradient", plain);
    assert.deepEqual([outer, length, inner, dtype], [2, 3, 4, "f32"]);
    const last = problemOf("softmaxGradient", { ...plain, axis: -1 });
    assert.deepEqual([last.outer, last.length, last.inner], [6, 4, 1]);
    assert.isUndefined(resolve("softmaxGradient", { ...plain, shape: [2, 0, 4] }).problem);
  });

  it("takes exactly one of its inputs as output, and refuses any other overlap", () => {
    for (const handle of [1, 2]) {
      assert.isDefined(problemOf("softmaxGradient", { ...plain, inputGradient: place(handle) }));
      throws(
        "INVALID_ARGUMENT",
        () => resolve("softmaxGradient", { ...plain, inputGradient: slice(handle, 4) }),
        "inputGradient",
      );
    }
  });
});

describe("normalizeGradient descriptor", () => {
  const plain: NormalizeGradientArguments = {
    ...{ kind: "layer", rows: 3, size: 8 },
    ...{ input: place(1), outputGradient: place(2), inputGradient: place(3) },
  };
  const whole: NormalizeGradientArguments = {
    ...{ ...plain, weight: place(4), mean: place(5), inverseDeviation: place(6) },
    ...{ weightGradient: place(7), biasGradient: place(8) },
  };
  const refuses = (change: object, argument: string): void => {
    throws("INVALID_ARGUMENT", () => resolve("normalizeGradient", { ...whole, ...change }), argument);
  };

  it("fills in what is left out", () => {
    const { epsilon, accumulate, weight, mean, weightGradient } = problemOf("normalizeGradient", plain);
    assert.deepEqual([epsilon, accumulate], [Math.fround(1e-5), false]);
    assert.deepEqual([weight, mean, weightGradient], [undefined, undefined, undefined]);
  });

  it("takes any one gradient alone", () => {
    const none = { inputGradient: undefined, weightGradient: undefined, biasGradient: undefined };
    for (const name of Object.keys(none))
      assert.isDefined(
        problemOf("normalizeGradient", { ...whole, ...none, [name]: place(9) } as never),
        name,
      );
  });

  it("wants both statistics of layer or neither, and no mean of rms", () => {
    refuses({ mean: undefined }, "mean");
    refuses({ inverseDeviation: undefined }, "inverseDeviation");
    refuses({ kind: "rms" }, "mean");
    const { inverseDeviation } = problemOf("normalizeGradient", {
      ...{ ...plain, kind: "rms", inverseDeviation: place(6) },
    });
    assert.equal(inverseDeviation?.byteLength, 12);
  });

  it("takes exactly one of its inputs as the input's gradient, and refuses any other overlap", () => {
    for (const handle of [1, 2]) {
      assert.isDefined(problemOf("normalizeGradient", { ...whole, inputGradient: place(handle) }));
      refuses({ inputGradient: slice(handle, 4) }, "inputGradient");
    }
    for (const handle of [4, 5, 6]) refuses({ inputGradient: place(handle) }, "inputGradient");
    for (const handle of [1, 2, 3, 4, 5, 6]) {
      refuses({ weightGradient: slice(handle, 4) }, "weightGradient");
      refuses({ biasGradient: slice(handle, 4) }, "biasGradient");
    }
    refuses({ biasGradient: place(7) }, "biasGradient");
  });

  it("has sums of no rows, unless they are accumulated", () => {
    const { rows, inputGradient, weightGradient } = problemOf("normalizeGradient", { ...whole, rows: 0 });
    assert.deepEqual([rows, inputGradient, weightGradient?.byteLength], [0, undefined, 32]);
    assert.isUndefined(resolve("normalizeGradient", { ...whole, rows: 0, accumulate: true }).problem);
    assert.isUndefined(resolve("normalizeGradient", { ...plain, rows: 0 }).problem);
    assert.isUndefined(resolve("normalizeGradient", { ...whole, size: 0 }).problem);
  });

  it("costs what must be read and written", () => {
    const bytes = (change: object) => costOf("normalizeGradient", { ...whole, ...change }).bytes;
    const [data, columns, statistics] = [96, 32, 12];
    assert.equal(bytes({}), 3 * data + 3 * columns + 2 * statistics);
    assert.equal(bytes({ accumulate: true }), 3 * data + 5 * columns + 2 * statistics);
    assert.equal(bytes({ inputGradient: undefined }), 2 * data + 2 * columns + 2 * statistics);
    assert.equal(bytes({ inputGradient: undefined, weightGradient: undefined }), data + columns);
    for (const kind of normalizeKinds)
      assert.isAbove(costOf("normalizeGradient", { ...plain, kind }).flops, 24, kind);
  });
});
