// Tags: kernels, pure
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import type { Resize2dArguments, Resize2dProblem } from "@backplane/core";
import { assert } from "chai";
import { PRODUCT_QUOTIENTS } from "#src/kernels/resize2d/places.wgsl.js";
import { planResize2d } from "#src/kernels/resize2d/select.js";
import type { DeviceMemory } from "#src/runtime/index.js";
import { describeTwoDimensions, problemAt } from "./images.js";

describeTwoDimensions("resize2d", ["whole ratios", "takes the element that is nearest"]);

type Shape = Omit<Resize2dArguments, "input" | "output">;

/** The problem of a call whose operands begin at these bytes. */
function problemOf(shape: Shape, input = 0, output = 0): Resize2dProblem<DeviceMemory> {
  const args = { ...shape, input: 1 as never, output: 1 as never };
  return problemAt("resize2d", args, { input, output });
}

describe("webgpu resize2d of very long rows", () => {
  it("takes the right columns, though their numbers are too large for products in f32", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    try {
      const [width, outputWidth] = [PRODUCT_QUOTIENTS + 8, 1000];
      const data = Float32Array.from({ length: width }, (_, i) => i % 65_521);
      const [input, output] = [backend.alloc(data.byteLength), backend.alloc(4 * outputWidth)];
      backend.copyHtoD(input, data);
      for (const kind of ["nearest", "bilinear"] as const) {
        backend.resize2d({
          ...{ kind, inputShape: [1, 1, 1, width], outputHeight: 1, outputWidth, input, output },
        });
        const got = new Float32Array(outputWidth);
        await backend.copyDtoH(got, output);
        for (const [o, value] of got.entries()) {
          // Both are exact as doubles.
          const place = ((2 * o + 1) * width) / (2 * outputWidth) - 0.5;
          const lower = Math.floor(kind === "nearest" ? place + 0.5 : place);
          const weight = kind === "nearest" ? 0 : place - lower;
          const expected = data[lower]! * (1 - weight) + data[lower + 1]! * weight;
          assert.closeTo(value, expected, kind === "nearest" ? 0 : 0.05, `${kind} ${o}`);
        }
      }
    } finally {
      await backend.dispose();
    }
  });
});

describe("webgpu resize2d plans", () => {
  const plain: Shape = {
    ...{ kind: "bilinear", inputShape: [2, 3, 112, 112], outputHeight: 224, outputWidth: 224 },
  };

  const stripsOf = (change: Partial<Shape>, output?: number) => {
    const plan = planResize2d(problemOf({ ...plain, ...change }, 0, output));
    return plan.form === "strips" ? plan : undefined;
  };

  const unitOf = (change: Partial<Shape>, output?: number) => {
    const plan = planResize2d(problemOf({ ...plain, ...change }, 0, output));
    return plan.form === "each" ? plan.tile.unit : undefined;
  };

  it("have as few idle invocations as they can", () => {
    // 56 strips beside one another, of four rows.
    assert.deepInclude(stripsOf({}), { shift: 6, workgroups: 6 * 14 });
    // Seven times eight, of one row.
    assert.deepInclude(stripsOf({ outputHeight: 225 }), { shift: 3, workgroups: 6 * 7 * 8 });
    assert.deepInclude(stripsOf({ outputWidth: 256 }), { shift: 6, workgroups: 6 * 56 });
    assert.deepInclude(stripsOf({ outputWidth: 1024 }), { shift: 8, workgroups: 6 * 224 });
    assert.deepInclude(stripsOf({ outputWidth: 4 }), { shift: 3, workgroups: 6 * 2 });
    assert.deepInclude(stripsOf({ outputWidth: 1024, outputHeight: 1 }), { shift: 8, workgroups: 6 });
  });

  it("know the columns of quarters, and step from column to column where these are near", () => {
    assert.deepInclude(stripsOf({})?.tile, { reach: "known", axis: { factor: 2, shift: -1, divisor: 4 } });
    assert.equal(stripsOf({ kind: "nearest" })?.tile.reach, "known");
    assert.equal(stripsOf({ outputWidth: 56 })?.tile.reach, "known");
    assert.equal(stripsOf({ outputWidth: 112 })?.tile.reach, "known");
    assert.equal(stripsOf({ outputWidth: 28 })?.tile.reach, "known");
    assert.equal(stripsOf({ outputWidth: 16 })?.tile.reach, "known");
    assert.equal(stripsOf({ outputWidth: 168 })?.tile.reach, "near");
    assert.equal(stripsOf({ outputWidth: 164 })?.tile.reach, "far");
    assert.equal(stripsOf({ outputWidth: 168, kind: "nearest" })?.tile.reach, "far");
  });

  it("store four results at once where these are whole vectors", () => {
    assert.equal(stripsOf({})?.tile.store, "vector");
    assert.equal(stripsOf({ outputWidth: 225 })?.tile.store, "single");
    assert.equal(stripsOf({}, 4)?.tile.store, "single");
    assert.equal(stripsOf({ dtype: "f16" }, 8)?.tile.store, "vector");
    // Two halves share a word.
    assert.equal(unitOf({ dtype: "f16" }, 4), "f16");
    assert.equal(unitOf({ dtype: "f16", outputWidth: 226, kind: "nearest" }), "half");
  });

  it("take the largest units of pixels", () => {
    const units = (kind: Shape["kind"], dtype: "f32" | "f16", inner: number, output = 0) =>
      unitOf({ kind, dtype, layout: "NHWC", inputShape: [2, 9, 9, inner] }, output);
    assert.equal(units("bilinear", "f32", 8), "vec4f");
    assert.equal(units("bilinear", "f32", 6), "f32");
    assert.equal(units("bilinear", "f32", 8, 4), "f32");
    assert.equal(units("bilinear", "f16", 4), "half4");
    assert.equal(units("bilinear", "f16", 6), "f16");
    assert.equal(units("nearest", "f32", 4), "block");
    assert.equal(units("nearest", "f32", 3), "word");
    assert.equal(units("nearest", "f16", 8), "block");
    assert.equal(units("nearest", "f16", 6), "word");
    assert.equal(units("nearest", "f16", 6, 2), "half");
    assert.equal(units("nearest", "f16", 5), "half");
  });

  it("divide by products where quotients are small enough", () => {
    const byProduct = (width: number) =>
      stripsOf({ inputShape: [1, 1, 1, width], outputHeight: 1, outputWidth: 2 * width })?.tile.byProduct;
    assert.equal(byProduct(PRODUCT_QUOTIENTS - 2), true);
    assert.equal(byProduct(PRODUCT_QUOTIENTS), false);
  });
});
