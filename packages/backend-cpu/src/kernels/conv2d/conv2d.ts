import {
  type Conv2dProblem,
  type ConvolutionTile,
  channelsLastSteps,
  type FloatType,
  floatTypes,
} from "@backplane/core";
import { widening, wideningKernels } from "../convert/index.js";
import { copy } from "../copy/index.js";
import { byFloatType } from "../elements/index.js";
import { activationCode } from "../epilogue/index.js";
import { gemm } from "../gemm/index.js";
import {
  address,
  type CpuMemory,
  type CpuOperation,
  type Kernel,
  type Launch,
  type PlanContext,
} from "../kernel.js";
import { channelsLastKernels, planPixels, planWindows } from "./channels-last.js";
import { type Conv2dTypes, conv2dKernel, patchElements, sumElements } from "./conv2d.wasm.js";
import { planDepthwise } from "./depthwise.js";
import { depthwiseKernels } from "./depthwise.wasm.js";
import { isPointwise, planesKernels, planPlanes } from "./planes.js";
import { productNanoseconds } from "./tile.js";
import { planTransformed, transformedKernels, transformedTile } from "./transformed.js";

const kernels: Readonly<Record<FloatType, Kernel<Conv2dTypes>>> = byFloatType(conv2dKernel);

/** How a problem is divided up; a function of the problem alone. */
export interface ConvolutionBlocks {
  readonly channelBlock: number;
  readonly pixelBlock: number;
  readonly depthBlock: number;
}

/** Few channels per group (depthwise: one) leave room for more pixels. */
function convolutionBlocks(groupOutChannels: number): ConvolutionBlocks {
  let pixelBlock = 64;
  if (groupOutChannels <= 16) pixelBlock = 256;
  if (groupOutChannels <= 8) pixelBlock = 512;
  return {
    pixelBlock,
    channelBlock: sumElements / pixelBlock,
    depthBlock: patchElements / pixelBlock,
  };
}

export const conv2d: CpuOperation<Conv2dProblem<CpuMemory>> = {
  supports: [{ dtype: floatTypes, activation: true }],
  kernels: [
    ...copy.kernels,
    ...gemm.kernels,
    ...Object.values(kernels),
    ...planesKernels,
    ...transformedKernels,
    ...channelsLastKernels,
    ...Object.values(depthwiseKernels).filter((kernel) => kernel !== undefined),
    ...wideningKernels,
  ],

  plan: (problem, context) =>
    problem.layout === "NHWC" ? planChannelsLast(problem, context) : planChannelsFirst(problem, context),
};

/** Returns the tile of the transforms that are to be used, if any are. */
function tileOf(
  problem: Conv2dProblem<CpuMemory>,
  { features, transformedConvolutions = "never" }: PlanContext,
): ConvolutionTile | undefined {
  if (transformedConvolutions === "never") return undefined;
  return transformedTile(problem, transformedConvolutions, features);
}

function planChannelsLast(problem: Conv2dProblem<CpuMemory>, context: PlanContext): readonly Launch[] {
  if (tileOf(problem, context) !== undefined) return planTransposed(problem, context);
  const isProduct = problem.groups === 1 && isPointwise(problem);
  const asTheyLie = isProduct ? undefined : (planPixels(problem, context) ?? planWindows(problem, context));
  return asTheyLie ?? planTransposed(problem, context);
}

/** One product of pixels and filters, or by planes, which takes a transposition before and after. */
function planTransposed(problem: Conv2dProblem<CpuMemory>, context: PlanContext): readonly Launch[] {
  const steps = channelsLastSteps(problem, (byteLength) => ({
    ...{ memory: { byteOffset: context.workspace(byteLength), byteLength }, byteOffset: 0, byteLength },
  }));
  if (steps.product !== undefined) return gemm.plan(steps.product, context);
  const { before, convolution, after } = steps;
  return [
    ...(before === undefined ? [] : copy.plan(before, context)),
    ...planChannelsFirst(convolution, context),
    ...(after === undefined ? [] : copy.plan(after, context)),
  ];
}

function planChannelsFirst(problem: Conv2dProblem<CpuMemory>, context: PlanContext): readonly Launch[] {
  const tile = tileOf(problem, context);
  if (tile !== undefined) return planTransformed(problem, context, tile);
  return planDepthwise(problem, context) ?? planPlanes(problem, context) ?? planPatches(problem, context);
}

/** By patches: for any shape. */
function planPatches(problem: Conv2dProblem<CpuMemory>, { workspace }: PlanContext): readonly Launch[] {
  const { dtype, batch, inChannels, outChannels, height, width, outHeight, outWidth, groups } = problem;
  const { kernelHeight, kernelWidth, top, left } = problem;
  const { strideY, strideX, dilationY, dilationX } = problem;
  const groupInChannels = inChannels / groups;
  const groupOutChannels = outChannels / groups;
  const depth = groupInChannels * kernelHeight * kernelWidth;
  const outPixels = outHeight * outWidth;
  const blocks = convolutionBlocks(groupOutChannels);
  const channelBlocks = Math.ceil(groupOutChannels / blocks.channelBlock);
  const pixelBlocks = Math.ceil(outPixels / blocks.pixelBlock);

  const launches: Launch[] = [];
  let filter = address(problem.filter);
  const filterElements = outChannels * depth;
  const widen = widening[dtype];
  if (widen !== undefined && filterElements > 0) {
    const widened = workspace(4 * filterElements);
    launches.push(widen(filter, widened, filterElements));
    filter = widened;
  }
  const parameters = {
    input: address(problem.input),
    filter,
    bias: problem.bias === undefined ? 0 : address(problem.bias),
    activation: activationCode(problem.activation),
    output: address(problem.output),
    inChannels,
    height,
    width,
    outChannels,
    kernelHeight,
    kernelWidth,
    outWidth,
    outPixels,
    strideY,
    strideX,
    top,
    left,
    dilationY,
    dilationX,
    groups,
    groupInChannels,
    groupOutChannels,
    depth,
    ...blocks,
    channelBlocks,
    pixelBlocks,
  };
  const nanoseconds = batch * outChannels * outPixels * depth * productNanoseconds;
  launches.push(kernels[dtype].launch(parameters, batch * groups * channelBlocks * pixelBlocks, nanoseconds));
  return launches;
}
