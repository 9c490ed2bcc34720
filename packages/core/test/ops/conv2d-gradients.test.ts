import {
  type Conv2dFilterGradientArguments,
  type Conv2dInputGradientArguments,
  costOf,
  filterGradientSteps,
  inputGradientSteps,
} from "@backplane/core";
import { assert } from "chai";
import { phasesOf } from "#src/ops/conv2d-input-gradient/steps.js";
import { throws } from "../support/fake-driver.js";
import { place, problemOf, resolve } from "../support/resolve.js";

const shapes = { inputShape: [2, 4, 7, 9], filterShape: [6, 4, 3, 2] } as const;
const toInput: Conv2dInputGradientArguments = {
  ...shapes,
  ...{ outputGradient: place(1), filter: place(2), inputGradient: place(3) },
};
const toFilter: Conv2dFilterGradientArguments = {
  ...shapes,
  ...{ outputGradient: place(1), input: place(2), filterGradient: place(3) },
};

function scratchOf(sizes: number[]) {
  return (byteLength: number) => {
    sizes.push(byteLength);
    return { memory: 9 + sizes.length, byteOffset: 0, byteLength };
  };
}

function inputSteps(parts: Partial<Conv2dInputGradientArguments>) {
  const sizes: number[] = [];
  return inputGradientSteps(problemOf("conv2dInputGradient", { ...toInput, ...parts }), scratchOf(sizes));
}

function filterSteps(parts: Partial<Conv2dFilterGradientArguments>) {
  const sizes: number[] = [];
  return filterGradientSteps(problemOf("conv2dFilterGradient", { ...toFilter, ...parts }), scratchOf(sizes));
}

const names = (steps: readonly { readonly operation: string }[]) => steps.map(({ operation }) => operation);

describe("gradients of conv2d", () => {
  it("have the geometry of the convolution, and do not add unless asked", () => {
    const problem = problemOf("conv2dInputGradient", toInput);
    assert.deepInclude(problem, { outHeight: 5, outWidth: 8, groups: 1, accumulate: false });
    assert.equal(problem.outputGradient.byteLength, 4 * 2 * 6 * 5 * 8);
    assert.equal(problem.filter.byteLength, 4 * 6 * 4 * 3 * 2);
    assert.equal(problem.inputGradient.byteLength, 4 * 2 * 4 * 7 * 9);
    const other = problemOf("conv2dFilterGradient", { ...toFilter, accumulate: true });
    assert.deepInclude(other, { outHeight: 5, outWidth: 8, groups: 1, accumulate: true });
    assert.equal(other.filterGradient.byteLength, 4 * 6 * 4 * 3 * 2);
  });

  it("cost as much as the convolution, and more bytes if they add", () => {
    const { flops } = costOf("conv2d", {
      ...shapes,
      ...{ input: place(1), filter: place(2), output: place(3) },
    });
    assert.equal(costOf("conv2dInputGradient", toInput).flops, flops);
    assert.equal(costOf("conv2dFilterGradient", toFilter).flops, flops);
    const [without, with_] = [false, true].map((accumulate) =>
      costOf("conv2dFilterGradient", { ...toFilter, accumulate }),
    );
    assert.equal(with_!.bytes - without!.bytes, 4 * 6 * 4 * 3 * 2);
  });

  it("refuse what a convolution refuses, and results over operands", () => {
    for (const [change, argument] of [
      [{ filterShape: [6, 3, 3, 2] }, "filterShape[1]"],
      [{ outputShape: [2, 6, 5, 9] }, "outputShape"],
      [{ groups: 3 }, "groups"],
      [{ accumulate: 1 }, "accumulate"],
    ] as const) {
      throws(
        "INVALID_ARGUMENT",
        () => resolve("conv2dInputGradient", { ...toInput, ...change } as never),
        argument,
      );
      throws(
        "INVALID_ARGUMENT",
        () => resolve("conv2dFilterGradient", { ...toFilter, ...change } as never),
        argument,
      );
    }
    throws(
      "INVALID_ARGUMENT",
      () => resolve("conv2dInputGradient", { ...toInput, inputGradient: place(2) }),
      "inputGradient",
    );
    throws(
      "INVALID_ARGUMENT",
      () => resolve("conv2dFilterGradient", { ...toFilter, filterGradient: place(1) }),
      "filterGradient",
    );
  });

  it("are zero, or nothing, if there is nothing to sum", () => {
    const none = { ...toInput, filterShape: [0, 4, 3, 2] } as const;
    const { problem, fills } = resolve("conv2dInputGradient", none);
    assert.isUndefined(problem);
    assert.deepInclude(fills[0], { value: 0, dtype: "f32" });
    const nothing = { problem: undefined, fills: [] };
    assert.deepEqual(resolve("conv2dInputGradient", { ...none, accumulate: true }), nothing);
    const empty = { ...toFilter, inputShape: [0, 4, 7, 9] } as const;
    assert.deepInclude(resolve("conv2dFilterGradient", empty).fills[0], { value: 0, dtype: "f32" });
    assert.deepEqual(resolve("conv2dFilterGradient", { ...empty, accumulate: true }), nothing);
    assert.deepEqual(resolve("conv2dInputGradient", { ...toInput, inputShape: [0, 4, 7, 9] }), nothing);
  });

  it("by steps: one convolution with stride 1, one for each phase otherwise, and products", () => {
    assert.deepEqual(names(inputSteps({})), ["copy", "conv2d"]);
    assert.deepEqual(names(inputSteps({ accumulate: true })), ["copy", "conv2d", "binary"]);
    assert.deepEqual(names(inputSteps({ accumulate: true, dtype: "f16" })), [
      ...["copy", "copy", "copy", "copy", "conv2d", "binary", "copy"],
    ]);
    const inTwos = names(inputSteps({ stride: [1, 2], padding: [0, 0, 0, 1], filterShape: [6, 4, 3, 3] }));
    assert.deepEqual(inTwos, ["copy", "conv2d", "copy", "copy", "conv2d", "copy"]);
    const pointwise = { filterShape: [6, 4, 1, 1] } as const;
    assert.deepEqual(names(inputSteps({ ...pointwise, stride: [2, 2] })), ["fill", "copy", "conv2d", "copy"]);
    assert.deepEqual(names(inputSteps({ filterShape: [6, 4, 3, 3], stride: [3, 3] })), [
      "fill",
      "gemm",
      "copy",
    ]);
    assert.deepEqual(names(inputSteps({ filterShape: [6, 4, 7, 9], accumulate: true })), ["gemm"]);
    // One window as large as the input, whose places are not the pixels: some lie in the padding behind.
    const spread = { filterShape: [6, 4, 7, 9], dilation: [2, 1], padding: [0, 0, 6, 0] } as const;
    assert.notInclude(names(inputSteps(spread)), "gemm");
    assert.notInclude(names(filterSteps(spread)), "gemm");
    const last = { ...pointwise, layout: "NHWC", inputShape: [2, 7, 9, 4] } as const;
    assert.deepEqual(names(inputSteps(last)), ["gemm"]);
    assert.deepEqual(names(filterSteps(last)), ["gemm"]);
    assert.deepEqual(names(filterSteps({})), ["copy", "copy", "conv2d", "copy"]);
    assert.deepEqual(names(filterSteps({ filterShape: [6, 4, 7, 9] })), ["gemm"]);
    assert.deepEqual(names(filterSteps({ padding: [103, 0, 0, 0], stride: [110, 1] })), ["fill"]);
  });

  it("divide pixels into phases that meet every tap inside once", () => {
    for (const size of [1, 4, 7, 10])
      for (const kernel of [1, 2, 3, 5])
        for (const stride of [1, 2, 3, 4, 6])
          for (const dilation of [1, 2, 3, 4])
            for (const [padding, after] of [
              [0, 0],
              [1, 2],
              [5, 0],
            ] as const) {
              const reach = dilation * (kernel - 1) + 1;
              if (reach > size + padding + after) continue;
              const outputs = Math.floor((size + padding + after - reach) / stride) + 1;
              const wanted: string[] = [];
              for (let output = 0; output < outputs; output++)
                for (let tap = 0; tap < kernel; tap++) {
                  const pixel = output * stride + tap * dilation - padding;
                  if (pixel >= 0 && pixel < size) wanted.push(`${pixel} ${tap} ${output}`);
                }
              const got: string[] = [];
              for (const phase of phasesOf({ size, outputs, kernel, stride, padding, dilation }))
                for (let q = 0; q < phase.count; q++)
                  for (let a = 0; a < phase.taps; a++) {
                    const row = q + a * phase.spread - phase.before;
                    if (row < 0 || row >= phase.size) continue;
                    const [pixel, tap] = [phase.first + q * stride, phase.lastTap - a * phase.tapStep];
                    got.push(`${pixel} ${tap} ${phase.used + row}`);
                  }
              assert.deepEqual(
                got.sort(),
                wanted.sort(),
                JSON.stringify({ size, kernel, stride, dilation, padding }),
              );
            }
  });
});
