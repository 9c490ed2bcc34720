import { costOf, type Resize2dGradientArguments, resize2dKinds } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: Resize2dGradientArguments = {
  ...{ kind: "nearest", inputShape: [2, 3, 4, 6], outputHeight: 8, outputWidth: 9 },
  ...{ outputGradient: place(1), inputGradient: place(2) },
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("resize2dGradient", { ...plain, ...change }), argument);
}

describe("resize2dGradient descriptor", () => {
  it("has the places of resize2d", () => {
    for (const kind of resize2dKinds)
      for (const coordinates of ["half-pixel", "align-corners", "asymmetric"] as const)
        for (const layout of ["NCHW", "NHWC"] as const) {
          const change = { kind, coordinates, layout };
          const {
            outputGradient: _1,
            inputGradient: _2,
            ...own
          } = problemOf("resize2dGradient", {
            ...{ ...plain, ...change },
          });
          const { outputGradient: input, inputGradient: output, ...resizing } = plain;
          const forward = problemOf("resize2d", { ...resizing, ...change, input, output } as never);
          const { input: _3, output: _4, ...its } = forward;
          assert.deepEqual(own as object, its);
        }
  });

  it("has factors by which places can be divided", () => {
    const axes = (change: object) => {
      const { y, x } = problemOf("resize2dGradient", { ...plain, ...change });
      return [y.factor, x.factor];
    };
    assert.deepEqual(axes({ inputShape: [2, 3, 1, 1] }), [1, 1]);
    assert.deepEqual(axes({ coordinates: "align-corners", outputHeight: 1, outputWidth: 1 }), [1, 1]);
    assert.deepEqual(axes({}), [2, 2]);
  });

  it("counts each gradient once", () => {
    assert.deepEqual(costOf("resize2dGradient", plain), { flops: 432, bytes: 576 + 1728 });
    assert.deepEqual(costOf("resize2dGradient", { ...plain, kind: "bilinear", dtype: "f16" }), {
      ...{ flops: 8 * 432, bytes: 288 + 864 },
    });
  });

  it("refuses bad kinds, types, extents and coordinates", () => {
    for (const kind of ["cubic", undefined]) refuses({ kind }, "kind");
    for (const dtype of ["bf16", "i32", "u8"]) refuses({ dtype }, "dtype");
    refuses({ layout: "HWC" }, "layout");
    refuses({ coordinates: "pytorch" }, "coordinates");
    refuses({ inputShape: [2, 3, 0, 6] }, "inputShape");
    refuses({ outputWidth: 1.5 }, "outputWidth");
    refuses({ inputShape: [1, 1, 40_001, 1], outputHeight: 40_000 }, "outputHeight");
  });

  it("is zero without results, and nothing without elements", () => {
    for (const change of [{ outputHeight: 0 }, { outputWidth: 0 }]) {
      const { problem, fills } = resolve("resize2dGradient", { ...plain, ...change, dtype: "f16" });
      assert.isUndefined(problem);
      assert.deepEqual(
        fills.map(({ region, value, dtype }) => [region.memory, region.byteLength, value, dtype]),
        [[2, 288, 0, "f16"]],
      );
    }
    for (const change of [{ inputShape: [0, 3, 4, 6] }, { inputShape: [2, 3, 0, 6], outputWidth: 0 }])
      assert.deepEqual(resolve("resize2dGradient", { ...plain, ...change } as never), {
        ...{ problem: undefined, fills: [] },
      });
  });

  it("refuses an output that overlaps its input", () => {
    refuses({ inputGradient: place(1) }, "inputGradient");
    assert.isDefined(problemOf("resize2dGradient", { ...plain, inputGradient: slice(1, 1728) }));
  });
});
