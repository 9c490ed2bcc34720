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
import { tileThreads } from "../tiles/index.js";
import { combineProgram } from "./combine.wgsl.js";
import { DIRECT_LANES, directProgram } from "./direct.wgsl.js";
import { type ImplicitForm, implicitProgram } from "./implicit.wgsl.js";
import { pixelsOfPart, selectFilterGradient, stripsOfPart } from "./select.js";
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
    const reading = readingOf(problem, (height * width) % 4 === 0 && isAligned(input));
    program = implicitProgram(tile, { dtype, vectorGradient, reading });
  }
  const shares = Math.ceil(length / part);
  const parts = variant.kind === "strip" ? shares * variant.tile.lanes : shares;
  const count = outChannels * shape.taps;
  const all = variant.kind === "direct" ? Math.ceil((count * parts) / DIRECT_LANES) : workgroups * shares;
  // Written out, as spreading objects takes longer than all the rest of a call.
  const parameters = {
    height,
    width,
    in_channels: inChannels,
    group_channels: inChannels / groups,
    kernel_height: problem.kernelHeight,
    kernel_width: problem.kernelWidth,
    out_height: outHeight,
    out_width: outWidth,
    stride_y: problem.strideY,
    stride_x: problem.strideX,
    top: problem.top,
    left,
    dilation_y: problem.dilationY,
    dilation_x: problem.dilationX,
    groups,
    group_outputs: shape.groupOutputs,
    pixels: shape.pixels,
    part,
    accumulate: accumulate && parts === 1 ? 1 : 0,
  };
  if (parts === 1) {
    context.dispatch(program, { gradient, input, output: results }, parameters, all);
    return;
  }
  const sums = context.scratch(4 * parts * count);
  context.dispatch(program, { gradient, input, output: sums }, parameters, all);
  combine(context, sums, results, parts, count, accumulate);
}

/** Parts that one invocation adds up; of more than this, groups are added up first. */
const TOGETHER = 32;

function combine(
  context: KernelContext,
  sums: BufferRegion,
  results: BufferRegion,
  parts: number,
  count: number,
  accumulate: boolean,
): void {
  const groups = parts > TOGETHER ? Math.ceil(parts / TOGETHER) : 1;
  const output = groups > 1 ? context.scratch(4 * groups * count) : results;
  const parameters = {
    ...{ parts, together: groups > 1 ? TOGETHER : parts, count },
    accumulate: accumulate && groups === 1 ? 1 : 0,
  };
  const workgroups = Math.ceil((groups * count) / WORKGROUP_SIZE);
  context.dispatch(combineProgram, { sums, output }, parameters, workgroups);
  if (groups > 1) combine(context, output, results, groups, count, accumulate);
}

function readingOf(problem: Problem, vectorInput: boolean): ImplicitForm["reading"] {
  const { kernelHeight, kernelWidth, strideY, strideX, height, width, outHeight, outWidth } = problem;
  const isPoint =
    kernelHeight * kernelWidth * strideY * strideX === 1 && height === outHeight && width === outWidth;
  if (!isPoint || problem.top + problem.left > 0) return "windows";
  return vectorInput ? "quads" : "points";
}
