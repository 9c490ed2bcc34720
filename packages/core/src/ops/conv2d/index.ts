import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { type Activation, activations, type EpilogueArguments, epilogueTable } from "../epilogue.js";
import { type ImageLayout, layouts } from "../images.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";

export { type ChannelsLastSteps, channelsLastSteps } from "./channels-last.js";

const table = {
  /** The order of the axes of images: [batch, channels, height, width] or [batch, height, width, channels]. */
  layout: { role: "choice", values: ["NCHW", "NHWC"], default: "NCHW" },
  /** [batch, inChannels, height, width], in the order of `layout` */
  inputShape: { role: "extents", length: 4 },
  /**
   * [outChannels, inChannels / groups, kernelHeight, kernelWidth], whatever the layout. The kernel is at least 1 x 1; with
   * dilation it must fit into the padded input.
   */
  filterShape: { role: "extents", length: 4 },
  /**
   * [batch, outChannels, outHeight, outWidth], in the order of `layout`. Checked if given.
   * outHeight = floor((height + top + bottom - dilationY * (kernelHeight - 1) - 1) / strideY) + 1
   */
  outputShape: { role: "extents", length: 4, otherwise: "derived" },
  input: { role: "reads", shape: "inputShape" },
  filter: { role: "reads", shape: "filterShape" },
  bias: { role: "reads", shape: "[outChannels]", otherwise: "none" },
  output: { role: "writes", shape: "outputShape" },
  /** [y, x] */
  stride: { role: "extents", length: 2, least: 1, default: [1, 1] },
  /**
   * Zeros around the input: [top, left, bottom, right]. The padded input must have fewer than 2^30 rows and columns.
   */
  padding: { role: "extents", length: 4, default: [0, 0, 0, 0] },
  /** [y, x] */
  dilation: { role: "extents", length: 2, least: 1, default: [1, 1] },
  /** Must divide inChannels and outChannels. */
  groups: { role: "extent", least: 1, default: 1 },
  dtype: { role: "elementType", types: ["f32", "f16"], default: "f32" },
} as const;

/**
 * 2-D convolution, forward, as in neural networks (cross-correlation):
 *
 *   output[b, o, y, x] = bias[o] + sum over c, i, j of
 *     filter[o, c, i, j] * input[b, group(o) * C + c, y * strideY + i * dilationY - top,
 *                                                     x * strideX + j * dilationX - left]
 *
 * C = inChannels / groups is the number of input channels per group, and group(o) = floor(o / (outChannels /
 * groups)). With layout "NHWC" channels are the last index of input and output. The input is zero outside its
 * bounds. The activation, if there is one, is applied to each output element. All operands are contiguous.
 */
export interface Conv2dArguments extends ArgumentsOf<typeof table>, EpilogueArguments {}

/**
 * Every output extent is at least 1. inChannels may be 0, and so may height and width if there is padding;
 * the output is then the bias, or zero, with the activation applied. The padded input has fewer than 2^30
 * rows and columns, and a stride or dilation that leads past it is cut off there, so that kernels may add
 * coordinates in signed 32-bit integers.
 */
export interface Conv2dProblem<Memory> {
  readonly dtype: FloatType;
  /** "NCHW" too where both layouts are the same, because images have one channel, or one pixel. */
  readonly layout: ImageLayout;
  readonly batch: number;
  readonly inChannels: number;
  readonly height: number;
  readonly width: number;
  readonly outChannels: number;
  readonly kernelHeight: number;
  readonly kernelWidth: number;
  readonly outHeight: number;
  readonly outWidth: number;
  readonly strideY: number;
  readonly strideX: number;
  readonly top: number;
  readonly left: number;
  readonly bottom: number;
  readonly right: number;
  readonly dilationY: number;
  readonly dilationX: number;
  readonly groups: number;
  readonly input: Region<Memory>;
  readonly filter: Region<Memory>;
  readonly bias: Region<Memory> | undefined;
  readonly activation: Activation | undefined;
  readonly output: Region<Memory>;
}

const PADDED_EXTENTS = 2 ** 30;

export const conv2d: Operation<Conv2dArguments, Conv2dProblem<unknown>> = defineOperation({
  name: "conv2d",
  arguments: { ...table, ...epilogueTable },

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const inputShape = read.extents("inputShape", args.inputShape, 4);
    const filterShape = read.extents("filterShape", args.filterShape, 4);
    const layout = read.choice("layout", args.layout, layouts) ?? table.layout.default;
    const isLast = layout === "NHWC";
    const batch = inputShape[0];
    const [inChannels, height, width] = isLast
      ? [inputShape[3], inputShape[1], inputShape[2]]
      : [inputShape[1], inputShape[2], inputShape[3]];
    const [outChannels, groupChannels] = filterShape;
    const kernelHeight = read.count("filterShape[2]", filterShape[2], 1);
    const kernelWidth = read.count("filterShape[3]", filterShape[3], 1);
    const [strideY, strideX] = read.optionalExtents("stride", args.stride, table.stride.default, 2, 1);
    const [dilationY, dilationX] = read.optionalExtents(
      "dilation",
      args.dilation,
      table.dilation.default,
      2,
      1,
    );
    const [top, left, bottom, right] = read.optionalExtents(
      "padding",
      args.padding,
      table.padding.default,
      4,
    );
    const groups = read.extent("groups", args.groups, table.groups.default, table.groups.least);
    const activation = read.choice("activation", args.activation, activations);
    if (inChannels % groups !== 0 || outChannels % groups !== 0)
      read.fail("groups", `is ${groups}; allowed: a divisor of ${inChannels} and ${outChannels} channels`);
    if (groupChannels !== inChannels / groups)
      read.fail(
        "filterShape[1]",
        `is ${groupChannels}; allowed: ${inChannels / groups}, inChannels / groups`,
      );

    const along = (name: string, size: number, kernel: number, stride: number, dilation: number) => {
      if (size >= PADDED_EXTENTS)
        read.fail("padding", `makes ${size} ${name} of the input; allowed: less than ${PADDED_EXTENTS}`);
      const reach = dilation * (kernel - 1) + 1;
      if (reach > size)
        read.fail("filterShape", `reaches over ${reach} ${name}; allowed: at most the padded ${size}`);
      return Math.floor((size - reach) / stride) + 1;
    };
    const paddedHeight = height + top + bottom;
    const paddedWidth = width + left + right;
    const outHeight = along("rows", paddedHeight, kernelHeight, strideY, dilationY);
    const outWidth = along("columns", paddedWidth, kernelWidth, strideX, dilationX);
    const outputShape = isLast
      ? [batch, outHeight, outWidth, outChannels]
      : [batch, outChannels, outHeight, outWidth];
    const given = read.optionalExtents("outputShape", args.outputShape, undefined, 4);
    if (given?.some((extent, i) => extent !== outputShape[i]))
      read.fail("outputShape", `is [${given.join(", ")}]; allowed: [${outputShape.join(", ")}]`);

    const input = read.region(binder, "input", args.input, read.product("inputShape", inputShape), dtype);
    const filter = read.region(
      binder,
      "filter",
      args.filter,
      read.product("filterShape", filterShape),
      dtype,
    );
    const bias = read.optionalRegion(binder, "bias", args.bias, outChannels, dtype);
    const output = read.region(
      binder,
      "output",
      args.output,
      read.product("outputShape", outputShape),
      dtype,
    );
    for (const [argument, region] of Object.entries({ input, filter, bias }))
      if (region) read.disjoint({ argument: "output", region: output }, { argument, region });
    if (output.byteLength === 0) return undefined;
    const isEither = (channels: number, pixels: number) => channels <= 1 || pixels <= 1;
    return {
      dtype,
      layout:
        isEither(inChannels, height * width) && isEither(outChannels, outHeight * outWidth) ? "NCHW" : layout,
      batch,
      inChannels,
      height,
      width,
      outChannels,
      kernelHeight,
      kernelWidth,
      outHeight,
      outWidth,
      strideY: Math.min(strideY, paddedHeight),
      strideX: Math.min(strideX, paddedWidth),
      top,
      left,
      bottom,
      right,
      dilationY: Math.min(dilationY, paddedHeight),
      dilationX: Math.min(dilationX, paddedWidth),
      groups,
      input,
      filter,
      bias,
      activation,
      output,
    };
  },

  flops(problem) {
    const { inChannels, groups, kernelHeight, kernelWidth, activation } = problem;
    const taps = (inChannels / groups) * kernelHeight * kernelWidth;
    return elements(problem.output, problem.dtype) * (2 * taps + (activation === undefined ? 0 : 1));
  },
});
