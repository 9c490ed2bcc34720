import type { Conv2dProblem } from "@backplane/core";
import { byFloatType, elementFormats } from "../elements/index.js";
import { planEpilogue } from "../gemm/index.js";
import { type AnyKernel, address, type CpuMemory, type Launch, type PlanContext } from "../kernel.js";
import { packNanoseconds } from "../panels/index.js";
import { tileColumns } from "../tile/index.js";
import { evenParts, wholeLines } from "../vector/index.js";
import { narrowKernels } from "./narrow.wasm.js";
import { paddingKernel } from "./padding.wasm.js";
import { knownStrides, knownTaps, pixelsKernel, togetherPixels } from "./pixels.wasm.js";
import { productNanoseconds } from "./tile.js";
import { packedPanels, packWindowsKernel, windowsKernel, windowsTile } from "./windows.wasm.js";

/*
 * Images with channels last, as they lie: channels one by one in vectors of channels (pixels.wasm.ts), and all others as a
 * product of windows and filters (windows.wasm.ts).
 */

type Problem = Conv2dProblem<CpuMemory>;

const pixelsKernels = byFloatType(pixelsKernel);
const windowsKernels = byFloatType(windowsKernel);
const packKernels = byFloatType(packWindowsKernel);

export const channelsLastKernels: readonly AnyKernel[] = [
  ...Object.values(pixelsKernels),
  ...Object.values(windowsKernels),
  ...Object.values(narrowKernels).filter((kernel) => kernel !== undefined),
  ...Object.values(packKernels),
  paddingKernel,
];

/** Products between two additions to the sums; summing in stretches keeps rounding errors small. */
const mostDepth = 512;
/** Output elements that are worth a chunk of their own. */
const leastElements = 1 << 12;
/** Bytes of gathered windows of a chunk: a part of a second-level cache. */
const windowBytes = 1 << 16;
/** Bytes of f32 sums of a chunk whose results are converted at its end. */
const sumBytes = 1 << 18;
/** Fewest channels of a group, in the input and in the output, for which windows are worth gathering. */
const leastGroupChannels = 4;

/** Most output channels for which windows are read from the image as they are needed. */
const mostNarrowChannels = 32;

/** Bytes of images, with their padding, up to which they are copied with it, so that no window lies partly beyond them. */
const mostPaddedBytes = 1 << 17;

/** Roughly how long a multiply-add takes one worker if channels are convolved one by one. */
const channelNanoseconds = 0.12;

/** Roughly, of copying with padding. */
const paddedByteNanoseconds = 0.1;

/** Whether each channel is convolved by itself, and windows are never wholly outside. */
function suitsPixels(shape: Omit<Problem, "input" | "filter" | "bias" | "activation" | "output">): boolean {
  const { inChannels, outChannels, groups, kernelHeight, kernelWidth, dilationY, dilationX } = shape;
  const { top, left, bottom, right, height, width } = shape;
  const [reachY, reachX] = [(kernelHeight - 1) * dilationY, (kernelWidth - 1) * dilationX];
  return (
    groups > 1 &&
    inChannels === groups &&
    outChannels === groups &&
    kernelHeight * kernelWidth <= mostDepth &&
    height * width > 0 &&
    Math.max(top, bottom) <= reachY &&
    Math.max(left, right) <= reachX
  );
}

/** Returns the plan for channels one by one, or undefined if the shape does not suit it. */
export function planPixels(problem: Problem, context: PlanContext): readonly Launch[] | undefined {
  if (!suitsPixels(problem)) return undefined;
  const { dtype, batch, inChannels: channels, height, width, outHeight, outWidth, top, left } = problem;
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = problem;
  const { workers } = context;
  const taps = kernelHeight * kernelWidth;
  const rows = batch * outHeight;
  const worthwhile = Math.ceil(leastElements / (outWidth * channels));
  const rowsPerChunk = workers === 1 ? rows : Math.max(worthwhile, Math.ceil(rows / (4 * workers)));
  const isKnown =
    kernelHeight === knownTaps && kernelWidth === knownTaps && dilationY === 1 && dilationX === 1;
  const knownStride = isKnown ? (knownStrides.find((stride) => stride === strideX) ?? 0) : 0;
  // Columns of the image that a window may miss at either side.
  const missed = knownStride === 0 ? 0 : 1;
  const togetherColumn = Math.max(0, Math.ceil((left - missed) / strideX));
  const lastStart = width - 1 - (kernelWidth - 1) * dilationX + missed;
  const togetherEnd = Math.min(outWidth, Math.floor((lastStart + left) / strideX) + 1);
  const isWorthwhile = togetherEnd - togetherColumn >= (knownStride === 0 ? togetherPixels : 1);
  const sums = wholeLines(4 * taps * Math.ceil(channels / 4) * 4);
  const roomBytes = sums + (elementFormats[dtype].converted ? wholeLines(4 * outWidth * channels + 16) : 0);
  const epilogue = planEpilogue(
    { dtype, n: channels, bias: problem.bias, activation: problem.activation },
    context,
  );
  // In the order of `PixelsTypes`.
  const parameters = [height, width, outHeight, outWidth, kernelHeight, kernelWidth, strideY, strideX];
  parameters.push(top, left, dilationY, dilationX, address(problem.input), address(problem.filter));
  parameters.push(
    epilogue.parameters.bias,
    epilogue.parameters.activation,
    address(problem.output),
    channels,
  );
  parameters.push(knownStride, isWorthwhile ? togetherColumn : outWidth, togetherEnd, rows, rowsPerChunk);
  parameters.push(context.workspace(roomBytes * workers), roomBytes, sums);
  const launch = pixelsKernels[dtype].launchList(
    parameters,
    Math.ceil(rows / rowsPerChunk),
    rows * outWidth * channels * taps * channelNanoseconds,
  );
  return epilogue.launches.length === 0 ? [launch] : [...epilogue.launches, launch];
}

/** Returns the plan by windows, or undefined if the shape does not suit it. */
export function planWindows(problem: Problem, context: PlanContext): readonly Launch[] | undefined {
  const { dtype, batch, inChannels, outChannels, groups, outHeight, outWidth } = problem;
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = problem;
  const { features, workers } = context;
  const taps = kernelHeight * kernelWidth;
  const groupInChannels = inChannels / groups;
  const groupOutChannels = outChannels / groups;
  const isSmall = Math.min(groupInChannels, groupOutChannels) < leastGroupChannels;
  if (groupInChannels === 0 || taps > mostDepth || (groups > 1 && isSmall)) return undefined;
  const tile = windowsTile(features);
  const stretchChannels = evenParts(groupInChannels, Math.floor(mostDepth / taps), 1);
  const stretches = Math.ceil(groupInChannels / stretchChannels);
  const pixels = batch * outHeight * outWidth;
  const share =
    workers === 1 ? pixels : Math.max(Math.ceil(pixels / (4 * workers)), leastElements / groupOutChannels);
  const isNarrow = groups === 1 && stretches === 1 && dilationX === 1 && outChannels <= mostNarrowChannels;
  const narrow = isNarrow ? narrowKernels[dtype] : undefined;
  const padded = narrow === undefined ? undefined : planPadding(problem, context);
  const { input, height, width, top, left } = padded ?? imageOf(problem);
  const cached = narrow === undefined ? windowBytes / (4 * taps * stretchChannels) : Number.POSITIVE_INFINITY;
  const held = elementFormats[dtype].converted ? sumBytes / (4 * groupOutChannels) : Number.POSITIVE_INFINITY;
  const pixelsPerChunk = Math.max(1, Math.ceil(Math.min(share, cached, held) / tile.rows)) * tile.rows;
  const pixelChunks = Math.ceil(pixels / pixelsPerChunk);
  const chunks = groups * pixelChunks;

  const columns = Math.ceil(groupOutChannels / tileColumns) * tileColumns;
  const groupPackedBytes = 4 * columns * groupInChannels * taps;
  const filter = address(problem.filter);
  const packed = context.workspace(groups * groupPackedBytes);
  const epilogue = planEpilogue(
    { dtype, n: outChannels, bias: problem.bias, activation: problem.activation },
    context,
  );
  const launches = epilogue.launches.slice();
  if (padded !== undefined) launches.push(padded.launch);
  const elements = outChannels * groupInChannels * taps;
  if (chunks > 1) {
    const panelBlocks = Math.ceil(groupOutChannels / (packedPanels * tileColumns));
    launches.push(
      packKernels[dtype].launchList(
        // In the order of `PackWindowsTypes`.
        [
          ...[filter, packed, groupOutChannels, groupInChannels, taps, stretchChannels, groupPackedBytes],
          ...[stretches, panelBlocks],
        ],
        groups * stretches * panelBlocks,
        elements * packNanoseconds,
      ),
    );
  }
  const zeroBytes = wholeLines(4 * stretchChannels + 16);
  const gathered = narrow === undefined ? pixelsPerChunk : tile.rows;
  const sums = zeroBytes + wholeLines(4 * gathered * taps * stretchChannels + 16);
  const roomBytes =
    sums + (elementFormats[dtype].converted ? wholeLines(4 * pixelsPerChunk * groupOutChannels + 16) : 0);
  // In the order of `WindowsTypes`.
  const parameters = [filter, packed, groupOutChannels, groupInChannels, taps, stretchChannels];
  parameters.push(groupPackedBytes, height, width, outHeight, outWidth, kernelHeight, kernelWidth);
  parameters.push(strideY, strideX, top, left, dilationY, dilationX, input);
  parameters.push(epilogue.parameters.bias, epilogue.parameters.activation, address(problem.output));
  parameters.push(inChannels, outChannels, pixels, pixelsPerChunk, pixelChunks, chunks > 1 ? 0 : 1);
  parameters.push(context.workspace(roomBytes * workers), roomBytes, zeroBytes, sums);
  launches.push(
    (narrow ?? windowsKernels[dtype]).launchList(parameters, chunks, pixels * elements * productNanoseconds),
  );
  return launches;
}

/** An image in memory. */
interface Image {
  readonly input: number;
  readonly height: number;
  readonly width: number;
  readonly top: number;
  readonly left: number;
}

function imageOf({ input, height, width, top, left }: Problem): Image {
  return { input: address(input), height, width, top, left };
}

/**
 * Copies small images with their padding, for convolutions to read in place of them: to copy each window that reaches beyond an
 * image takes longer.
 */
function planPadding(
  problem: Problem,
  context: PlanContext,
): (Image & { readonly launch: Launch }) | undefined {
  const { batch, inChannels, height, width, top, left, bottom, right } = problem;
  if (top + left + bottom + right === 0) return undefined;
  const paddedHeight = height + top + bottom;
  const paddedWidth = width + left + right;
  const pixelBytes = 4 * inChannels;
  const lineBytes = pixelBytes * paddedWidth;
  const bytes = batch * paddedHeight * lineBytes;
  if (bytes > mostPaddedBytes) return undefined;
  const output = context.workspace(bytes + 16);
  // In the order of `PaddingTypes`.
  const parameters = [address(problem.input), output, batch, height, pixelBytes * width];
  parameters.push(lineBytes * top, lineBytes * bottom, pixelBytes * left, pixelBytes * right);
  const launch = paddingKernel.launchList(parameters, 1, bytes * paddedByteNanoseconds);
  return { input: output, height: paddedHeight, width: paddedWidth, top: 0, left: 0, launch };
}
