import { dtypeBytes } from "@backplane/core";
import type { Program } from "../../program/index.js";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";
import {
  type ChannelsAxis,
  type ChannelsForm,
  type ChannelsTile,
  COLUMNS,
  channelsProgram,
} from "./channels.wgsl.js";
import { type DenseTile, denseProgram } from "./dense.wgsl.js";
import type { ConvProblem } from "./problem.js";

/** Taps of a filter of one channel, written out in the text of a kernel: those of 7 x 7 at the most. */
const MOST_TAPS = 49;

/** Terms of a sum over all channels, written out likewise. Larger products are worth copies of their images. */
const MOST_TERMS = 64;

/**
 * Whether a kernel takes images with channels last as they lie: those with one filter for each channel, or with few channels and
 * filters of all of them, if outputs are quads of channels, and what is read or written by quads begins at whole ones. The
 * others are transposed, or are products.
 */
export function keepsChannelsLast(problem: ConvProblem): boolean {
  const { layout, groups, inChannels, outChannels, kernelHeight, kernelWidth, output } = problem;
  if (layout !== "NHWC" || outChannels % 4 !== 0 || problem.input.byteLength === 0) return false;
  const { bias = output } = problem;
  if (!beginsWhole(problem, bias) || !beginsWhole(problem, output)) return false;
  const taps = kernelHeight * kernelWidth;
  if (groups === 1) return taps > 1 && taps * inChannels <= MOST_TERMS;
  const isEach = groups === inChannels && groups === outChannels && taps <= MOST_TAPS;
  return isEach && beginsWhole(problem, problem.input) && beginsWhole(problem, problem.filter);
}

function beginsWhole({ dtype }: ConvProblem, { byteOffset }: BufferRegion): boolean {
  return byteOffset % (4 * dtypeBytes[dtype]) === 0;
}

/** A convolution of such images with one filter for each channel. */
export function runChannelsLast(context: KernelContext, problem: ConvProblem, tile: ChannelsTile): void {
  const lines = problem.batch * Math.ceil(problem.outHeight / tile.rows);
  enqueue(context, problem, channelsProgram(tile, formOf(problem)), lines, COLUMNS, tile.lanes);
}

/** A convolution of such images with filters of all of their few channels. */
export function runDense(context: KernelContext, problem: ConvProblem, tile: DenseTile): void {
  const form = { ...formOf(problem), inputs: problem.inChannels };
  const lines = problem.batch * problem.outHeight;
  enqueue(context, problem, denseProgram(tile, form), lines, tile.columns, tile.lanes);
}

function formOf(problem: ConvProblem): ChannelsForm {
  const { dtype, bias, activation } = problem;
  const down: ChannelsAxis = {
    ...{ taps: problem.kernelHeight, stride: problem.strideY, dilation: problem.dilationY },
  };
  const across: ChannelsAxis = {
    ...{ taps: problem.kernelWidth, stride: problem.strideX, dilation: problem.dilationX },
  };
  return { dtype, down, across, bias: bias !== undefined, activation };
}

/** Each invocation has a quad of channels of some columns of one of the lines. */
function enqueue(
  context: KernelContext,
  problem: ConvProblem,
  program: Program,
  lines: number,
  columns: number,
  lanes: number,
): void {
  const { batch, outChannels, height, width, outHeight, outWidth, top, left } = problem;
  const { input, filter, bias, output } = problem;
  const quads = outChannels / 4;
  context.dispatch(
    program,
    bias === undefined ? { input, filter_: filter, output } : { input, filter_: filter, bias, output },
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
    Math.ceil((lines * Math.ceil(outWidth / columns) * quads) / lanes),
  );
}
