// Tags: kernels, pure
import type { Conv2dArguments, DeviceHandle } from "@backplane/core";
import { expect } from "chai";
import { conv2d } from "#src/kernels/conv2d/conv2d.js";
import type { PlanContext } from "#src/kernels/kernel.js";
import { resolveProblem } from "./problems.js";

const handle = 1 as DeviceHandle;
const regionAt = (byteOffset: number) => ({
  memory: { byteOffset, byteLength: 1 << 22 },
  ...{ byteOffset: 0, byteLength: 1 << 22 },
});

/** The kernels that a plan starts, in turn. */
function kernelsOf(args: Omit<Conv2dArguments, "input" | "filter" | "output">, workers = 1): string[] {
  const problem = resolveProblem(
    "conv2d",
    { layout: "NHWC", ...args, input: handle, filter: handle, output: handle },
    { input: regionAt(1 << 22), filter: regionAt(2 << 22), output: regionAt(3 << 22) },
  );
  const context = {
    ...{ features: { relaxedSimd: false }, workers },
    ...{ workspace: () => 4 << 22, late: () => expect.fail("kernels are made late") },
  } satisfies PlanContext;
  return conv2d.plan(problem!, context).map(({ kernel }) => kernel);
}

const same = [1, 1, 1, 1] as const;

describe("plans of conv2d with channels last", () => {
  it("transpose nothing, and take one command for channels one by one", () => {
    const depthwise = { filterShape: [64, 1, 3, 3], padding: same, groups: 64 } as const;
    expect(kernelsOf({ inputShape: [1, 12, 12, 64], ...depthwise })).to.deep.equal(["conv2d_pixels_f32"]);
    expect(
      kernelsOf({ inputShape: [1, 12, 12, 64], ...depthwise, stride: [2, 2], padding: [0, 0, 1, 1] }, 2),
    ).to.deep.equal(["conv2d_pixels_f32"]);
    expect(kernelsOf({ inputShape: [1, 12, 12, 64], ...depthwise, dtype: "f16" })).to.deep.equal([
      "conv2d_pixels_f16",
    ]);
  });

  it("read windows from the image for few output channels, and gather them for more", () => {
    const of = (outputs: number, inputs: number) =>
      ({ inputShape: [1, 48, 48, inputs], filterShape: [outputs, inputs, 3, 3], padding: same }) as const;
    expect(kernelsOf({ ...of(8, 3), padding: [0, 0, 0, 0] })).to.deep.equal(["conv2d_narrow_f32"]);
    expect(kernelsOf({ ...of(8, 3), dtype: "f16" })).to.include("conv2d_windows_f16");
    expect(kernelsOf({ ...of(8, 3), dilation: [1, 2] })).to.include("conv2d_windows_f32");
    // All of their elements do not fit one stretch of sums.
    expect(kernelsOf(of(8, 64))).to.include("conv2d_windows_f32");
    expect(kernelsOf(of(64, 8))).to.deep.equal(["conv2d_windows_pack_f32", "conv2d_windows_f32"]);
  });

  it("copy small images with their padding first, if windows are read from them", () => {
    const of = (side: number, outputs: number) =>
      ({ inputShape: [2, side, side, 4], filterShape: [outputs, 4, 3, 3], padding: same }) as const;
    expect(kernelsOf(of(12, 8))).to.deep.equal(["conv2d_padding", "conv2d_narrow_f32"]);
    expect(kernelsOf(of(90, 8))).to.deep.equal(["conv2d_narrow_f32"]);
    expect(kernelsOf(of(12, 40))).not.to.include("conv2d_padding");
  });

  it("have several chunks, and pack the filter once for all of them, if there are several workers", () => {
    const args = { inputShape: [1, 98, 98, 3], filterShape: [16, 3, 3, 3] } as const;
    expect(kernelsOf(args, 2)).to.deep.equal(["conv2d_windows_pack_f32", "conv2d_narrow_f32"]);
  });

  it("are products for windows of one pixel", () => {
    for (const kernel of kernelsOf({ inputShape: [1, 12, 12, 32], filterShape: [64, 32, 1, 1] }))
      expect(kernel).to.match(/^gemm/);
  });

  it("transpose where single channels give several, and where groups have few", () => {
    const several = { inputShape: [1, 9, 9, 8], filterShape: [16, 1, 3, 3], groups: 8 } as const;
    expect(kernelsOf(several)).to.include("conv2d_depthwise_f32");
    const few = { inputShape: [1, 9, 9, 8], filterShape: [8, 2, 3, 3], groups: 4 } as const;
    expect(kernelsOf(few).join()).to.include("conv2d_planes");
  });
});
