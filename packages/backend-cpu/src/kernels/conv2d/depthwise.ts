import type { Conv2dProblem } from "@backplane/core";
import { activationCode } from "../epilogue/index.js";
import { address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { wholeLines } from "../vector/index.js";
import { depthwiseColumns, depthwiseKernel, depthwiseKernels, depthwiseRows } from "./depthwise.wasm.js";
import type { ConvolutionShape } from "./planes.js";
import { convolutionForm, productNanoseconds } from "./tile.js";

/** Output elements of a chunk, roughly. */
const chunkPlaces = 4096;

/** Whether the kernel for single planes computes a shape. */
export function suitsDepthwise(shape: ConvolutionShape): boolean {
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX, left, right } = shape;
  const { inChannels, outChannels, groups, outHeight, outWidth } = shape;
  return (
    inChannels === groups &&
    convolutionForm(outChannels / groups) === "wide" &&
    kernelHeight === depthwiseKernel &&
    kernelWidth === depthwiseKernel &&
    strideY * strideX * dilationY * dilationX === 1 &&
    // So only the first and the last tile of a row meet any padding.
    Math.max(left, right) <= 1 &&
    outHeight >= depthwiseRows &&
    outWidth >= depthwiseColumns &&
    shape.batch * outChannels * shape.height * shape.width > 0
  );
}

/** Returns the plan plane by plane, or undefined if the shape does not suit it. */
export function planDepthwise(
  problem: Conv2dProblem<CpuMemory>,
  { workers, workspace }: PlanContext,
): readonly Launch[] | undefined {
  const kernel = depthwiseKernels[problem.dtype];
  if (kernel === undefined || !suitsDepthwise(problem)) return undefined;
  const { batch, inChannels, outChannels, height, width, outHeight, outWidth, groups, top, left } = problem;
  const planes = batch * outChannels;
  const rows = Math.ceil(chunkPlaces / outWidth / depthwiseRows) * depthwiseRows;
  const rowBlocks = Math.max(1, Math.floor(outHeight / rows));
  const rowBlock = rowBlocks === 1 ? outHeight : rows;
  // A chunk computes several small planes, if that leaves enough chunks for all workers.
  const enough = workers === 1 ? 1 : 4 * workers;
  const small = Math.floor(chunkPlaces / (rowBlock * outWidth));
  const planesPerChunk = Math.max(1, Math.min(small, Math.floor(planes / enough)));
  const zeroRowBytes = wholeLines(4 * width) + 64;
  const parameters = {
    input: address(problem.input),
    filter: address(problem.filter),
    bias: problem.bias === undefined ? 0 : address(problem.bias),
    activation: activationCode(problem.activation),
    output: address(problem.output),
    inChannels,
    height,
    width,
    outChannels,
    outHeight,
    outWidth,
    top,
    left,
    groupOutChannels: outChannels / groups,
    planes,
    planesPerChunk,
    rowBlock,
    rowBlocks,
    zeroRows: workspace(workers * zeroRowBytes),
    zeroRowBytes,
  };
  const nanoseconds = planes * outHeight * outWidth * depthwiseKernel ** 2 * productNanoseconds;
  const chunks = Math.ceil(planes / planesPerChunk) * rowBlocks;
  return [kernel.launch(parameters, chunks, nanoseconds)];
}
