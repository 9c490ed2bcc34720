import { activations, type Conv2dArguments, channelsLastSteps, costOf } from "@backplane/core";
import { assert } from "chai";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve, slice } from "../support/resolve.js";

const plain: Conv2dArguments = {
  inputShape: [2, 4, 7, 9],
  filterShape: [6, 4, 3, 2],
  input: place(1),
  filter: place(2),
  output: place(3),
};

function refuses(change: object, argument: string): void {
  throws("INVALID_ARGUMENT", () => resolve("conv2d", { ...plain, ...change } as Conv2dArguments), argument);
}

/** Output extent along one axis, by trying every position. */
function positions(padded: number, reach: number, stride: number): number {
  let count = 0;
  for (let start = 0; start + reach <= padded; start += stride) count++;
  return count;
}

describe("conv2d descriptor", () => {
  it("fills in every default", () => {
    assert.deepEqual(problemOf("conv2d", plain), {
      ...{ dtype: "f32", layout: "NCHW", batch: 2, inChannels: 4, height: 7, width: 9, outChannels: 6 },
      ...{ kernelHeight: 3, kernelWidth: 2, outHeight: 5, outWidth: 8 },
      ...{ strideY: 1, strideX: 1, top: 0, left: 0, bottom: 0, right: 0 },
      ...{ dilationY: 1, dilationX: 1, groups: 1 },
      input: { memory: 1, byteOffset: 0, byteLength: 4 * 2 * 4 * 7 * 9 },
      filter: { memory: 2, byteOffset: 0, byteLength: 4 * 6 * 4 * 3 * 2 },
      ...{ bias: undefined, activation: undefined },
      output: { memory: 3, byteOffset: 0, byteLength: 4 * 2 * 6 * 5 * 8 },
    });
  });

  it("takes shapes in the order of the layout, which does not matter where there is one channel or one pixel", () => {
    const last = {
      ...{ ...plain, layout: "NHWC" as const },
      ...{ inputShape: [2, 7, 9, 4] as const, outputShape: [2, 5, 8, 6] as const },
    };
    assert.deepEqual(problemOf("conv2d", last), { ...problemOf("conv2d", plain), layout: "NHWC" });
    refuses({ layout: "NHWC" }, "filterShape[1]");
    refuses({ ...last, outputShape: [2, 6, 5, 8] }, "outputShape");
    refuses({ layout: "nhwc" }, "layout");
    for (const [inputShape, filterShape, layout] of [
      [[2, 7, 9, 1], [6, 1, 3, 2], "NHWC"],
      [[2, 7, 9, 4], [1, 4, 3, 2], "NHWC"],
      [[2, 7, 9, 1], [1, 1, 3, 2], "NCHW"],
      [[2, 7, 9, 1], [6, 1, 7, 9], "NCHW"],
      [[2, 1, 1, 4], [6, 4, 1, 1], "NCHW"],
    ] as const)
      assert.equal(
        problemOf("conv2d", { ...plain, layout: "NHWC", inputShape, filterShape }).layout,
        layout,
        String(inputShape),
      );
  });

  it("gives backends a product or transpositions for images with channels last", () => {
    const stepsOf = (parts: Partial<Conv2dArguments>) => {
      const sizes: number[] = [];
      const problem = problemOf("conv2d", { ...plain, layout: "NHWC", inputShape: [2, 7, 9, 4], ...parts });
      const steps = channelsLastSteps(problem, (byteLength) => {
        sizes.push(byteLength);
        return { memory: 9 + sizes.length, byteOffset: 0, byteLength };
      });
      return { problem, sizes, steps };
    };
    const plainSteps = stepsOf({});
    if (plainSteps.steps.product !== undefined) assert.fail("no product");
    assert.deepEqual(plainSteps.sizes, [4 * 2 * 4 * 63, 4 * 2 * 6 * 40]);
    const { before, convolution, after } = plainSteps.steps;
    assert.deepInclude(before, { shape: [2, 4, 63], inputStrides: [252, 1, 4], outputStrides: [252, 63, 1] });
    assert.deepInclude(after, { shape: [2, 40, 6], inputStrides: [240, 1, 40], outputStrides: [240, 6, 1] });
    assert.deepInclude(convolution, { layout: "NCHW", input: before!.output, output: after!.input });

    const one = stepsOf({ filterShape: [1, 4, 3, 2] });
    assert.isUndefined((one.steps as typeof plainSteps.steps).after);
    assert.equal((one.steps as typeof plainSteps.steps).convolution.output, one.problem.output);

    const pointwise = stepsOf({ filterShape: [6, 4, 1, 1] });
    assert.deepInclude(pointwise.steps.product, {
      ...{ m: 126, n: 6, k: 4, transB: true, lda: 4, ldb: 4, ldc: 6, a: pointwise.problem.input },
    });
    for (const parts of [{ padding: [0, 1, 0, 0] }, { stride: [1, 2] }] as const)
      assert.isUndefined(stepsOf({ filterShape: [6, 4, 1, 1], ...parts }).steps.product);
  });

  it("passes the activation on, and refuses those that there are not", () => {
    for (const activation of activations)
      assert.equal(problemOf("conv2d", { ...plain, activation }).activation, activation);
    for (const activation of ["sigmoid", "Gelu", "", null, 0]) refuses({ activation }, "activation");
    const [without, with_] = [costOf("conv2d", plain), costOf("conv2d", { ...plain, activation: "relu" })];
    assert.equal(with_.flops - without.flops, 2 * 6 * 5 * 8);
    assert.equal(with_.bytes, without.bytes);
  });

  it("derives the output extents that trying every position gives", () => {
    for (const size of [1, 2, 5, 8])
      for (const kernel of [1, 2, 3])
        for (const stride of [1, 2, 3])
          for (const dilation of [1, 2])
            for (const [before, after] of [
              [0, 0],
              [1, 0],
              [0, 2],
              [3, 1],
            ] as const) {
              const padded = size + before + after;
              const reach = dilation * (kernel - 1) + 1;
              const args: Conv2dArguments = {
                ...{ ...plain, inputShape: [1, 1, size, 20], filterShape: [1, 1, kernel, 1] },
                ...{ stride: [stride, 1], dilation: [dilation, 1], padding: [before, 0, after, 0] },
              };
              const sideways: Conv2dArguments = {
                ...{ ...plain, inputShape: [1, 1, 20, size], filterShape: [1, 1, 1, kernel] },
                ...{ stride: [1, stride], dilation: [1, dilation], padding: [0, before, 0, after] },
              };
              const expected = positions(padded, reach, stride);
              if (expected === 0) {
                throws("INVALID_ARGUMENT", () => resolve("conv2d", args), "filterShape");
                throws("INVALID_ARGUMENT", () => resolve("conv2d", sideways), "filterShape");
              } else {
                assert.equal(problemOf("conv2d", args).outHeight, expected);
                assert.equal(problemOf("conv2d", sideways).outWidth, expected);
              }
            }
  });

  it("refuses malformed shapes and lists", () => {
    for (const argument of ["inputShape", "filterShape", "outputShape", "padding"])
      for (const value of [[1, 2, 3], [1, 2, 3, 4, 5], "1234", 4, {}])
        refuses({ [argument]: value }, argument);
    for (const argument of ["stride", "dilation"])
      for (const value of [[1], [1, 1, 1], 2]) refuses({ [argument]: value }, argument);
    refuses({ inputShape: [2, 4, -1, 9] }, "inputShape[2]");
    refuses({ inputShape: [2, 4, 7, 1.5] }, "inputShape[3]");
    refuses({ filterShape: [6, 4, 0, 2] }, "filterShape[2]");
    refuses({ filterShape: [6, 4, 3, 0] }, "filterShape[3]");
    refuses({ stride: [0, 1] }, "stride[0]");
    refuses({ dilation: [1, 0] }, "dilation[1]");
    refuses({ padding: [0, 0, -1, 0] }, "padding[2]");
    refuses({ dtype: "i8" }, "dtype");
  });

  it("refuses lists with holes", () => {
    const holes = new Array(4) as unknown as [number, number, number, number];
    refuses({ inputShape: holes }, "inputShape[0]");
  });

  it("refuses groups that do not divide the channels, and filters of another depth", () => {
    refuses({ groups: 3 }, "groups");
    refuses({ groups: 4 }, "groups");
    refuses({ groups: 0 }, "groups");
    refuses({ groups: 1.5 }, "groups");
    refuses({ groups: 2 }, "filterShape[1]");
    refuses({ filterShape: [6, 3, 3, 2] }, "filterShape[1]");
    assert.equal(problemOf("conv2d", { ...plain, groups: 2, filterShape: [6, 2, 3, 2] }).groups, 2);
  });

  it("checks a given output shape", () => {
    assert.isDefined(problemOf("conv2d", { ...plain, outputShape: [2, 6, 5, 8] }));
    refuses({ outputShape: [2, 6, 8, 5] }, "outputShape");
    refuses({ outputShape: [2, 6, 5, 8.5] }, "outputShape[3]");
  });

  it("refuses shapes of more than 2^53 elements", () => {
    const large = 2 ** 20;
    refuses({ inputShape: [large, 4, large, large] }, "inputShape");
    refuses({ padding: [large, 0, 0, large], inputShape: [2 ** 19, 4, 7, 9] }, "outputShape");
  });

  it("refuses padding that takes coordinates near the end of 32 bits, or of what is exact", () => {
    const one = { inputShape: [1, 1, 1, 1], filterShape: [1, 1, 1, 1] } as const;
    for (const padding of [
      [2 ** 30 - 1, 0, 0, 0],
      [0, 2 ** 29, 0, 2 ** 29],
      [0, 0, 2 ** 32, 0],
      [0, 2 ** 53 - 1, 0, 2 ** 53 - 1],
    ])
      refuses({ ...one, padding, stride: [2 ** 52, 2 ** 52] }, "padding");
    refuses({ inputShape: [0, 4, 2 ** 30, 9] }, "padding");
    const far = { ...plain, ...one, padding: [2 ** 30 - 2, 0, 0, 0], stride: [2 ** 30 - 2, 1] } as const;
    assert.deepInclude(problemOf("conv2d", far), { outHeight: 2, top: 2 ** 30 - 2, strideY: 2 ** 30 - 2 });
  });

  it("cuts steps off that lead out of the padded input", () => {
    const [inputShape, filterShape] = [[1, 1, 3, 4] as const, [1, 1, 1, 1] as const];
    const steps = { stride: [2 ** 40, 2 ** 53 - 1], dilation: [2 ** 53 - 1, 2 ** 31] } as const;
    const problem = problemOf("conv2d", {
      ...{ ...plain, ...steps, inputShape, filterShape },
      padding: [1, 0, 0, 3],
    });
    assert.deepInclude(problem, { outHeight: 1, outWidth: 1, strideY: 4, strideX: 7 });
    assert.deepInclude(problem, { dilationY: 4, dilationX: 7 });
  });

  it("refuses an output that shares bytes with input, filter or bias", () => {
    for (const argument of ["input", "filter", "bias"]) {
      refuses({ [argument]: place(3) }, "output");
      // The output has 1920 bytes.
      refuses({ [argument]: slice(3, 1916) }, "output");
      assert.isDefined(problemOf("conv2d", { ...plain, [argument]: slice(3, 1920) }));
    }
  });

  it("has nothing to do for an empty output, and keeps inputs without elements", () => {
    assert.isUndefined(resolve("conv2d", { ...plain, inputShape: [0, 4, 7, 9] }).problem);
    assert.isUndefined(resolve("conv2d", { ...plain, filterShape: [0, 4, 3, 2] }).problem);
    const withoutChannels = problemOf("conv2d", {
      ...plain,
      inputShape: [2, 0, 7, 9],
      filterShape: [6, 0, 3, 2],
      bias: place(4),
    });
    assert.equal(withoutChannels.inChannels, 0);
    assert.equal(withoutChannels.bias!.byteLength, 24);
    const onlyPadding = problemOf("conv2d", {
      ...plain,
      inputShape: [2, 4, 0, 9],
      padding: [2, 0, 1, 0],
    });
    assert.equal(onlyPadding.outHeight, 1);
    assert.equal(onlyPadding.input.byteLength, 0);
  });

  it("counts flops and bytes", () => {
    const args: Conv2dArguments = { ...plain, groups: 2, filterShape: [6, 2, 3, 2], dtype: "f16" };
    const multiplyAdds = 2 * 6 * 5 * 8 * (2 * 3 * 2);
    const elements = 2 * 4 * 7 * 9 + 6 * 2 * 3 * 2 + 2 * 6 * 5 * 8;
    assert.deepEqual(costOf("conv2d", args), { flops: 2 * multiplyAdds, bytes: 2 * elements });
    assert.equal(costOf("conv2d", { ...args, bias: place(4) }).bytes, 2 * (elements + 6));
  });
});
