import {
  type Conv2dFilterGradientProblem,
  conversion,
  dtypeBytes,
  filterGradientProduct,
  transposition,
} from "@backplane/core";
import { type Program, WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, DeviceMemory, KernelContext } from "../../runtime/index.js";
import { copy } from "../copy/index.js";
import { runGemm } from "../gemm/index.js";
import { storeRounded } from "../halves.js";
import { PADDED_SIDE, windowExtents } from "../images/index.js";
import { PARTIAL_SUM_BYTES } from "../segments/index.js";
import { tileThreads } from "../tiles/index.js";
import { combineProgram } from "./combine.wgsl.js";
import { DIRECT_LANES, directProgram } from "./direct.wgsl.js";
import { type ImplicitForm, implicitProgram } from "./implicit.wgsl.js";
import { paddedProgram } from "./padded.wgsl.js";
import { isWorthCopying, pixelsOfPart, selectFilterGradient, stripsOfPart } from "./select.js";
import { stripProgram } from "./strip.wgsl.js";
import { type FilterGradientShape, type FilterGradientVariant, tileCount } from "./variants.js";

type Problem = Conv2dFilterGradientProblem<DeviceMemory>;

/** conv2dFilterGradient; `forced` names a variant to take wherever it fits (see `filterGradientVariants`). */
export function runFilterGradient(context: KernelContext, problem: Problem, forced?: string): void {
  const product = filterGradientProduct(problem);
  if (product !== undefined) runGemm(context, product.problem);
  else if (problem.layout === "NHWC") runPlanes(context, inPlanes(context, problem), forced);
  else runPlanes(context, problem, forced);
}

/** The same problem of images with channels first, in scratch. */
function inPlanes(context: KernelContext, problem: Problem): Problem {
  const { dtype, batch, inChannels, outChannels, height, width, outHeight, outWidth } = problem;
  const transposed = (region: BufferRegion, channels: number, pixels: number) => {
    if (channels === 1 || pixels === 1) return region;
    const planes = context.scratch(region.byteLength);
    copy.run(context, transposition(dtype, [batch, pixels, channels], region, planes));
    return planes;
  };
  return {
    ...{ ...problem, layout: "NCHW" },
    input: transposed(problem.input, inChannels, height * width),
    outputGradient: transposed(problem.outputGradient, outChannels, outHeight * outWidth),
  };
}

function runPlanes(context: KernelContext, problem: Problem, forced: string | undefined): void {
  const { dtype, accumulate, filterGradient } = problem;
  const variant = selectFilterGradient(shapeOf(problem), context.features, forced);
  const store = storeRounded[dtype];
  if (store === undefined) {
    enqueue(context, problem, variant, filterGradient);
    return;
  }
  // f32 results in scratch are rounded into the output.
  const columns = filterGradient.byteLength / dtypeBytes[dtype];
  const results = context.scratch(4 * columns);
  if (accumulate) copy.run(context, conversion(dtype, "f32", columns, filterGradient, results));
  enqueue(context, problem, variant, results);
  store(context, results, filterGradient, { batch: 1, rows: 1, columns });
}

function shapeOf(problem: Problem): FilterGradientShape {
  const { dtype, batch, groups, inChannels, outChannels, kernelHeight, kernelWidth } = problem;
  const { outHeight, outWidth, strideY, strideX, dilationY, dilationX } = problem;
  const depthwise = inChannels === groups && dilationY === 1 && dilationX === 1;
  const square = kernelHeight === kernelWidth && strideY === strideX;
  return {
    ...{ dtype, groups, groupOutputs: outChannels / groups },
    taps: (inChannels / groups) * kernelHeight * kernelWidth,
    pixels: batch * outHeight * outWidth,
    pointwise: isPointwise(problem),
    window: depthwise && square ? { side: kernelHeight, stride: strideY } : undefined,
  };
}

/** Enqueues commands that leave the sums in `results`, in f32, or add them to it. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  variant: FilterGradientVariant,
  results: BufferRegion,
): void {
  const { dtype, batch, groups, outHeight, outWidth, outChannels, inChannels, accumulate } = problem;
  const { height, width, left, input, outputGradient: gradient } = problem;
  const shape = shapeOf(problem);
  const quad = 4 * dtypeBytes[dtype];
  const isAligned = ({ byteOffset }: BufferRegion) => byteOffset % quad === 0;
  let [part, length, workgroups] = [0, shape.pixels, 0];
  let program: Program;
  // Of one group: results, and what there is room for in parts of sums.
  let [rows, columns] = [shape.groupOutputs, shape.taps];
  let source = { input, height, width, top: problem.top, left, channels: 1 };
  if (variant.kind === "strip") {
    const { tile } = variant;
    length = Math.ceil(outWidth / 4) * outHeight * batch;
    part = stripsOfPart(shape, length, tile.lanes, context.features);
    workgroups = outChannels * tile.side;
    const vectorLeft = width % 4 === 0 && isAligned(input) && left < tile.side ? left : undefined;
    const vectorGradient = outWidth % 4 === 0 && isAligned(gradient);
    program = stripProgram(tile, { dtype, vectorLeft, vectorGradient });
  } else if (variant.kind === "direct") {
    part = pixelsOfPart(shape, outChannels * shape.taps, context.features);
    program = directProgram(dtype);
  } else {
    const { tile } = variant;
    workgroups = tileCount(shape, tile);
    part = pixelsOfPart(shape, workgroups * tileThreads(tile).total, context.features);
    const vectorGradient = (outHeight * outWidth) % 4 === 0 && isAligned(gradient);
    let reading = readingOf(problem, (height * width) % 4 === 0 && isAligned(input));
    const whole = [
      Math.ceil(rows / tile.rows) * tile.rows,
      Math.ceil(columns / tile.columns) * tile.columns,
    ] as const;
    const bytes = 4 * Math.ceil(length / part) * groups * whole[0] * whole[1];
    const inTiles = part < length && bytes <= PARTIAL_SUM_BYTES;
    if (inTiles) [rows, columns] = whole;
    if (inTiles && reading === "windows" && isWorthCopying(shape, problem, context.features)) {
      reading = "channels";
      source = channelsLast(context, problem);
    }
    program = implicitProgram(tile, {
      ...{ dtype, vectorGradient, reading },
      stores: inTiles ? "tiles" : "results",
    });
  }
  const shares = Math.ceil(length / part);
  const parts = variant.kind === "strip" ? shares * variant.tile.lanes : shares;
  const count = outChannels * shape.taps;
  const all = variant.kind === "direct" ? Math.ceil((count * parts) / DIRECT_LANES) : workgroups * shares;
  // Written out, as spreading objects takes longer than all the rest of a call.
  const parameters = {
    height: source.height,
    width: source.width,
    in_channels: inChannels,
    group_channels: inChannels / groups,
    kernel_height: problem.kernelHeight,
    kernel_width: problem.kernelWidth,
    out_height: outHeight,
    out_width: outWidth,
    stride_y: problem.strideY,
    stride_x: problem.strideX,
    top: source.top,
    left: source.left,
    dilation_y: problem.dilationY,
    dilation_x: problem.dilationX,
    groups,
    group_outputs: shape.groupOutputs,
    pixels: shape.pixels,
    part,
    accumulate: accumulate && parts === 1 ? 1 : 0,
  };
  if (parts === 1) {
    context.dispatch(program, { gradient, input: source.input, output: results }, parameters, all);
    return;
  }
  const stride = groups * rows * columns;
  const sums = context.scratch(4 * parts * stride);
  context.dispatch(program, { gradient, input: source.input, output: sums }, parameters, all);
  combine(context, sums, results, { parts, shape, rows, columns, channels: source.channels }, accumulate);
}

/** The input of all windows with the padding, in scratch, and with channels last. */
function channelsLast(context: KernelContext, problem: Problem) {
  const { dtype, batch, inChannels, input, top, left } = problem;
  const { height, width } = windowExtents(problem);
  const padded = context.scratch(dtypeBytes[dtype] * batch * height * width * inChannels);
  const tiles = Math.ceil((height * width) / PADDED_SIDE) * Math.ceil(inChannels / PADDED_SIDE);
  context.dispatch(
    paddedProgram(dtype),
    { input, output: padded },
    {
      ...{ batch, channels: inChannels, height: problem.height, width: problem.width },
      ...{ padded_height: height, padded_width: width, top, left },
    },
    batch * tiles,
  );
  return { input: padded, height, width, top: 0, left: 0, channels: inChannels };
}

interface Parts {
  readonly parts: number;
  readonly shape: FilterGradientShape;
  /** The room for each group in the sums. */
  readonly rows: number;
  readonly columns: number;
  /** Channels that are last there; 1 if they are not. */
  readonly channels: number;
}

/** Parts that one invocation adds up; of more than this, groups are added up first. */
const TOGETHER = 32;

function combine(
  context: KernelContext,
  sums: BufferRegion,
  results: BufferRegion,
  { parts, shape, rows, columns, channels }: Parts,
  accumulate: boolean,
): void {
  const { groups, groupOutputs, taps } = shape;
  const count = groups * groupOutputs * taps;
  const together = parts > TOGETHER ? TOGETHER : parts;
  const left = Math.ceil(parts / together);
  const output = left > 1 ? context.scratch(4 * left * count) : results;
  const parameters = {
    ...{
      parts,
      together,
      count,
      group_outputs: groupOutputs,
      taps,
      channels,
      places: taps / channels,
      rows,
      columns,
    },
    stride: groups * rows * columns,
    accumulate: accumulate && left === 1 ? 1 : 0,
  };
  context.dispatch(combineProgram, { sums, output }, parameters, Math.ceil((left * count) / WORKGROUP_SIZE));
  const next = { parts: left, shape, rows: groupOutputs, columns: taps, channels: 1 };
  if (left > 1) combine(context, output, results, next, accumulate);
}

function readingOf(problem: Problem, vectorInput: boolean): ImplicitForm["reading"] {
  if (!isPointwise(problem)) return "windows";
  return vectorInput ? "quads" : "points";
}

function isPointwise(problem: Problem): boolean {
  const { kernelHeight, kernelWidth, strideY, strideX, top, left } = problem;
  const { height, width, outHeight, outWidth } = problem;
  const isOfOne = kernelHeight * kernelWidth * strideY * strideX === 1 && top + left === 0;
  return isOfOne && height === outHeight && width === outWidth;
}
