import type { FloatType } from "../../dtype.js";
import type { Region } from "../../region.js";
import { elements } from "../checks.js";
import { type Activation, activations, type EpilogueArguments, epilogueTable } from "../epilogue.js";
import { defineOperation, type Operation } from "../operation.js";
import type { ArgumentsOf } from "../table.js";
import {
  type Conv2dGeometry,
  convolutionFlops,
  type GeometryArguments,
  geometryTable,
  readGeometry,
} from "./geometry.js";

export { type ChannelsLastSteps, channelsLastSteps } from "./channels-last.js";
export type { Conv2dGeometry } from "./geometry.js";

const table = {
  input: { role: "reads", shape: "inputShape" },
  filter: { role: "reads", shape: "filterShape" },
  bias: { role: "reads", shape: "[outChannels]", otherwise: "none" },
  output: { role: "writes", shape: "outputShape" },
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
export interface Conv2dArguments extends ArgumentsOf<typeof table>, GeometryArguments, EpilogueArguments {}

/**
 * batch and outChannels are at least 1. inChannels may be 0, and so may height and width if there is padding;
 * the output is then the bias, or zero, with the activation applied.
 */
export interface Conv2dProblem<Memory> extends Conv2dGeometry {
  readonly dtype: FloatType;
  readonly input: Region<Memory>;
  readonly filter: Region<Memory>;
  readonly bias: Region<Memory> | undefined;
  readonly activation: Activation | undefined;
  readonly output: Region<Memory>;
}

export const conv2d: Operation<Conv2dArguments, Conv2dProblem<unknown>> = /* @__PURE__ */ defineOperation({
  name: "conv2d",
  arguments: { ...geometryTable, ...table, ...epilogueTable },

  countNames(args) {
    let names = 0;
    for (const _ in args) names++;
    return names;
  },

  resolve(args, binder, read) {
    const dtype = read.elementType("dtype", args.dtype, table.dtype);
    const { geometry, inputs, filters, outputs } = readGeometry(args, read);
    const activation = read.choice("activation", args.activation, activations);
    const input = read.region(binder, "input", args.input, inputs, dtype);
    const filter = read.region(binder, "filter", args.filter, filters, dtype);
    const bias = read.optionalRegion(binder, "bias", args.bias, geometry.outChannels, dtype);
    const output = read.region(binder, "output", args.output, outputs, dtype);
    const written = { argument: "output", region: output };
    read.disjoint(written, { argument: "input", region: input });
    read.disjoint(written, { argument: "filter", region: filter });
    if (bias !== undefined) read.disjoint(written, { argument: "bias", region: bias });
    if (output.byteLength === 0) return undefined;
    // Written out: spreading the geometry would take longer than all else.
    return {
      dtype,
      layout: geometry.layout,
      batch: geometry.batch,
      inChannels: geometry.inChannels,
      height: geometry.height,
      width: geometry.width,
      outChannels: geometry.outChannels,
      kernelHeight: geometry.kernelHeight,
      kernelWidth: geometry.kernelWidth,
      outHeight: geometry.outHeight,
      outWidth: geometry.outWidth,
      strideY: geometry.strideY,
      strideX: geometry.strideX,
      top: geometry.top,
      left: geometry.left,
      bottom: geometry.bottom,
      right: geometry.right,
      dilationY: geometry.dilationY,
      dilationX: geometry.dilationX,
      groups: geometry.groups,
      input,
      filter,
      bias,
      activation,
      output,
    };
  },

  flops(problem) {
    const activations = problem.activation === undefined ? 0 : elements(problem.output, problem.dtype);
    return convolutionFlops(problem) + activations;
  },
});
