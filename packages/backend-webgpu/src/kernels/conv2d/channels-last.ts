import { dtypeBytes } from "@backplane/core";
import type { KernelContext } from "../../runtime/index.js";
import { type ChannelsAxis, type ChannelsTile, COLUMNS, channelsProgram } from "./channels.wgsl.js";
import type { ConvProblem } from "./conv2d.js";

/** Taps of a filter, written out in the text of a kernel: those of 7 x 7 at the most. */
const MOST_TAPS = 49;

/**
 * Whether a kernel takes images with channels last as they lie: those with one filter for each channel, quads of channels and
 * operands that begin at whole quads. The others are transposed.
 */
export function keepsChannelsLast(problem: ConvProblem): boolean {
  const { dtype, layout, groups, inChannels, outChannels, kernelHeight, kernelWidth } = problem;
  if (layout !== "NHWC" || groups !== inChannels || groups !== outChannels || groups % 4 !== 0) return false;
  if (kernelHeight * kernelWidth > MOST_TAPS || problem.input.byteLength === 0) return false;
  const { input, filter, bias = input, output } = problem;
  return [input, filter, bias, output].every(({ byteOffset }) => byteOffset % (4 * dtypeBytes[dtype]) === 0);
}

/** A convolution of such images. */
export function runChannelsLast(context: KernelContext, problem: ConvProblem, tile: ChannelsTile): void {
  const { dtype, batch, groups, height, width, outHeight, outWidth, top, left } = problem;
  const { input, filter, bias, activation, output } = problem;
  const down: ChannelsAxis = {
    ...{ taps: problem.kernelHeight, stride: problem.strideY, dilation: problem.dilationY },
  };
  const across: ChannelsAxis = {
    ...{ taps: problem.kernelWidth, stride: problem.strideX, dilation: problem.dilationX },
  };
  const quads = groups / 4;
  const strips = batch * Math.ceil(outHeight / tile.rows) * Math.ceil(outWidth / COLUMNS);
  context.dispatch(
    channelsProgram(tile, { dtype, down, across, bias: bias !== undefined, activation }),
    { input, filter_: filter, ...(bias === undefined ? {} : { bias }), output },
    {
      images: batch,
      height,
      width,
      quads,
      out_height: outHeight,
      out_width: outWidth,
      top,
      left,
    },
    Math.ceil((strips * quads) / tile.lanes),
  );
}
