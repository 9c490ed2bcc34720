// Tags: kernels, pure
import { createWebGpuBackend } from "@backplane/backend-webgpu";
import { decodeFloat16, dtypeBytes, encodeFloat16, type Resize2dGradientArguments } from "@backplane/core";
import { assert } from "chai";
import { PRODUCT_QUOTIENTS } from "#src/kernels/resize2d/index.js";
import type { Problem } from "#src/kernels/resize2d-gradient/problem.js";
import { planResize2dGradient } from "#src/kernels/resize2d-gradient/select.js";
import { knownResults } from "#src/kernels/resize2d-gradient/strips.wgsl.js";
import { describeTwoDimensions, problemAt } from "./images.js";

describeTwoDimensions("resize2dGradient", ["whole ratios", "nearest: stays within the error bound"]);

type Shape = Omit<Resize2dGradientArguments, "outputGradient" | "inputGradient">;

/** The problem of a call whose operands begin at these bytes. */
function problemOf(shape: Shape, at: Readonly<Record<string, number>> = {}): Problem {
  const args = { ...shape, outputGradient: 1 as never, inputGradient: 1 as never };
  return problemAt("resize2dGradient", args, at);
}

describe("webgpu resize2dGradient of very long rows", () => {
  it("finds the right results, though their numbers are too large for products in f32", async () => {
    const backend = createWebGpuBackend();
    await backend.init();
    try {
      const [width, outputWidth] = [1000, PRODUCT_QUOTIENTS + 8];
      const data = Float32Array.from({ length: outputWidth }, (_, i) => i % 7);
      const [outputGradient, inputGradient] = [backend.alloc(data.byteLength), backend.alloc(4 * width)];
      backend.copyHtoD(outputGradient, data);
      for (const kind of ["nearest", "bilinear"] as const) {
        backend.resize2dGradient({
          ...{ kind, inputShape: [1, 1, 1, width], outputHeight: 1, outputWidth },
          ...{ outputGradient, inputGradient },
        });
        const got = new Float32Array(width);
        await backend.copyDtoH(got, inputGradient);
        const expected = new Float64Array(width);
        for (const [o, g] of data.entries()) {
          const place = ((2 * o + 1) * width) / (2 * outputWidth) - 0.5;
          const inside = Math.min(
            Math.max(kind === "nearest" ? Math.floor(place + 0.5) : place, 0),
            width - 1,
          );
          const lower = Math.floor(inside);
          expected[lower]! += g * (1 - inside + lower);
          if (inside > lower) expected[lower + 1]! += g * (inside - lower);
        }
        // Whole sums of the nearest are exact.
        for (const [i, sum] of expected.entries())
          assert.closeTo(got[i]!, sum, kind === "nearest" ? 0 : 2 ** -10 * sum, `${kind} ${i}`);
      }
    } finally {
      await backend.dispose();
    }
  });
});

describe("webgpu resize2dGradient of strips", () => {
  // Four channels at a time, and eight elements of one.
  for (const [kind, outputHeight, outputWidth, dtype, width, channels] of [
    ["bilinear", 10, 16, "f32", 8, 12],
    ["bilinear", 7, 24, "f16", 8, 12],
    ["nearest", 10, 16, "f32", 8, 12],
    ["bilinear", 5, 4, "f32", 8, 12],
    ["bilinear", 10, 48, "f16", 24, 1],
    ["bilinear", 7, 8, "f16", 16, 1],
    ["nearest", 10, 32, "f16", 16, 1],
    ["nearest", 4, 8, "f16", 16, 1],
  ] as const)
    it(`adds up what ${channels} channels get, ${kind} of ${width} to ${outputHeight} x ${outputWidth} in ${dtype}`, async () => {
      const [batch, height] = [2, 5];
      const count = batch * outputHeight * outputWidth * channels;
      const gradient = Float64Array.from({ length: count }, (_, i) => ((i * 7) % 31) - 15);
      const expected = new Float64Array(batch * height * width * channels);
      /** The elements that a result is made of, with their factors. */
      const sources = (o: number, extent: number, results: number): (readonly [number, number])[] => {
        const place = ((2 * o + 1) * extent) / (2 * results) - 0.5;
        const inside = Math.min(
          Math.max(kind === "nearest" ? Math.floor(place + 0.5) : place, 0),
          extent - 1,
        );
        const lower = Math.floor(inside);
        const rest = inside - lower;
        return rest === 0
          ? [[lower, 1]]
          : [
              [lower, 1 - rest],
              [lower + 1, rest],
            ];
      };
      for (let at = 0; at < count; at++) {
        const pixel = Math.floor(at / channels);
        const row = Math.floor(pixel / outputWidth);
        for (const [y, ofRow] of sources(row % outputHeight, height, outputHeight))
          for (const [x, ofColumn] of sources(pixel % outputWidth, width, outputWidth)) {
            const image = Math.floor(row / outputHeight);
            const place = ((image * height + y) * width + x) * channels + (at % channels);
            expected[place]! += gradient[at]! * ofRow * ofColumn;
          }
      }
      const backend = createWebGpuBackend();
      await backend.init();
      try {
        const size = dtypeBytes[dtype];
        const outputGradient = backend.alloc(size * count);
        const inputGradient = backend.alloc(size * expected.length);
        backend.copyHtoD(
          outputGradient,
          dtype === "f16" ? encodeFloat16(gradient) : Float32Array.from(gradient),
        );
        backend.resize2dGradient({
          // In both layouts of a single channel, its elements lie in the same order.
          ...(channels === 1
            ? { inputShape: [batch, 1, height, width] as const }
            : { inputShape: [batch, height, width, channels] as const, layout: "NHWC" as const }),
          ...{ kind, outputHeight, outputWidth },
          ...{ dtype, outputGradient, inputGradient },
        });
        const got = dtype === "f16" ? new Uint16Array(expected.length) : new Float32Array(expected.length);
        await backend.copyDtoH(got, inputGradient);
        const values = got instanceof Uint16Array ? decodeFloat16(got) : got;
        for (const [i, value] of expected.entries())
          assert.closeTo(
            values[i]!,
            value,
            dtype === "f16" ? 2 ** -10 * (Math.abs(value) + 1) : 1e-4,
            `element ${i}`,
          );
      } finally {
        await backend.dispose();
      }
    });
});

describe("webgpu resize2dGradient plans", () => {
  const plain: Shape = {
    ...{ kind: "bilinear", inputShape: [2, 3, 112, 112], outputHeight: 224, outputWidth: 224 },
  };

  const planOf = (change: Partial<Shape>, at?: Readonly<Record<string, number>>) =>
    planResize2dGradient(problemOf({ ...plain, ...change }, at));
  const stripsOf = (...args: Parameters<typeof planOf>) => {
    const plan = planOf(...args);
    return plan.form === "strips" ? plan.tile : undefined;
  };

  it("know the results of strips that are whole steps apart", () => {
    assert.deepInclude(stripsOf({}), { axis: { factor: 2, shift: -1, divisor: 4 }, load: "quad" });
    assert.deepInclude(stripsOf({ kind: "nearest" }), { load: "quad" });
    assert.deepInclude(stripsOf({ outputWidth: 56 }), { load: "single" });
    assert.deepInclude(stripsOf({}, { outputGradient: 4 }), { load: "single" });
    assert.deepInclude(stripsOf({ outputWidth: 168 }), { load: "single" });
    assert.deepInclude(stripsOf({ outputWidth: 448 }), { load: "quad" });
    assert.deepInclude(stripsOf({ outputWidth: 112 }), { load: "quad" });
    const fused = { layout: "NHWC", inputShape: [2, 112, 112, 8] } as const;
    assert.deepInclude(stripsOf(fused), { load: "channels" });
    for (const [change, at] of [
      [{ outputWidth: 164 }, {}],
      [{ outputWidth: 8 * 112 }, {}],
      [{ inputShape: [2, 3, 112, 113], outputWidth: 226 }, {}],
      [{}, { inputGradient: 4 }],
      [{ layout: "NHWC", inputShape: [2, 112, 112, 6] }, {}],
      [fused, { outputGradient: 4 }],
    ] as const)
      assert.equal(stripsOf(change, at), undefined, JSON.stringify(change));
  });

  it("are of eight elements of f16 where these are a store, and results are read in fours", () => {
    const widthOf = (change: Partial<Shape>, at?: Readonly<Record<string, number>>) =>
      stripsOf({ dtype: "f16", ...change }, at)?.width;
    assert.equal(widthOf({}), 8);
    assert.equal(widthOf({ kind: "nearest" }), 8);
    assert.equal(widthOf({ outputWidth: 56 }), 8);
    assert.equal(widthOf({ dtype: "f32" }), 4);
    assert.equal(widthOf({ inputShape: [2, 3, 112, 108], outputWidth: 216 }), 4);
    assert.equal(widthOf({}, { inputGradient: 8 }), 4);
    assert.equal(widthOf({}, { outputGradient: 4 }), 4);
    assert.equal(widthOf({ layout: "NHWC", inputShape: [2, 112, 112, 8] }), 4);
    // More results of a strip than make kernels of their own.
    assert.equal(widthOf({ outputWidth: 448 }), 4);
  });

  it("give each element its results", () => {
    const shares = (kind: "nearest" | "bilinear") =>
      knownResults(kind, { factor: 2, shift: kind === "nearest" ? 1 : -1, divisor: 4 }, 4).map(
        ({ result, shares }) =>
          `${result}: ${shares.map(({ element, factor }) => `${factor} of ${element}`).join(", ")}`,
      );
    assert.deepEqual(shares("nearest").slice(0, 3), ["0: 1 of 0", "1: 1 of 0", "2: 1 of 1"]);
    assert.equal(shares("nearest").length, 8);
    assert.deepEqual(shares("bilinear").slice(0, 4), [
      ...["-1: 0.25 of 0", "0: 0.75 of 0", "1: 0.75 of 0, 0.25 of 1", "2: 0.25 of 0, 0.75 of 1"],
    ]);
    assert.equal(shares("bilinear").at(-1), "8: 0.25 of 3");
    assert.equal(shares("bilinear").length, 10);
  });

  it("take four channels at a time where they are whole vectors", () => {
    const vectorOf = (inner: number, at?: Readonly<Record<string, number>>) => {
      const plan = planOf({ layout: "NHWC", inputShape: [2, 9, 9, inner] }, at);
      return plan.form === "each" ? plan.tile.vector : undefined;
    };
    assert.equal(vectorOf(8), 4);
    assert.equal(vectorOf(6), 1);
    assert.equal(vectorOf(8, { outputGradient: 4 }), 1);
  });

  it("divide by products where quotients are small enough", () => {
    const byProduct = (outputWidth: number) =>
      planOf({ inputShape: [1, 1, 1, outputWidth / 2], outputHeight: 1, outputWidth }).tile.byProduct;
    assert.equal(byProduct(PRODUCT_QUOTIENTS - 2), true);
    assert.equal(byProduct(PRODUCT_QUOTIENTS), false);
  });
});
