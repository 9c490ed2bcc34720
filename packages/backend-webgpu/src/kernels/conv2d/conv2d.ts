import { convolutionTransforms, dtypeBytes, isTransformable } from "@backplane/core";
import type { DeviceFeatures } from "../../device/index.js";
import { WORKGROUP_SIZE } from "../../program/index.js";
import type { BufferRegion, KernelContext } from "../../runtime/index.js";
import { runGemm, SHORTEST_SPLIT } from "../gemm/index.js";
import { storeRounded } from "../halves.js";
import { windowExtents } from "../images/index.js";
import { PARTIAL_SUM_BYTES, windowBytes } from "../segments/index.js";
import { keepsChannelsLast, runChannelsLast, runDense } from "./channels-last.js";
import { combineProgram } from "./combine.wgsl.js";
import { directProgram } from "./direct.wgsl.js";
import { type ImplicitForm, implicitProgram } from "./implicit.wgsl.js";
import type { Patches } from "./patches.wgsl.js";
import type { ConvProblem } from "./problem.js";
import type { ConvResult } from "./results.wgsl.js";
import { type ConvChoice, selectConv } from "./select.js";
import { splitting } from "./split/on-demand.js";
import { paddedChannels } from "./split/tile.js";
import { stripProgram } from "./strip.wgsl.js";
import { runTransformed, tilesAtATime } from "./transformed.js";
import { type ConvShape, type ConvVariant, convTileCount } from "./variants.js";

type Problem = ConvProblem;

/** conv2d; `forced` names a variant to take wherever it fits (see `convVariants`). */
export function runConv(context: KernelContext, problem: Problem, forced?: string): void {
  const { dtype, output } = problem;
  const shape = shapeOf(problem, context.features);
  const choice = selectConv(shape, context.features, forced);
  if (choice.variant.kind === "gemm") {
    runPointwise(context, problem);
    return;
  }
  if (choice.variant.kind === "channels") {
    runChannelsLast(context, problem, choice.variant.tile);
    return;
  }
  if (choice.variant.kind === "dense") {
    runDense(context, problem, choice.variant.tile);
    return;
  }
  // Halves are written a quad at a time, or not by the kernel itself: two share a word.
  const store = writesQuads(shape, problem, choice.variant) ? undefined : storeRounded[dtype];
  if (store === undefined) {
    enqueue(context, problem, shape, output, "output", choice);
    return;
  }
  // f32 results in scratch are rounded into the output.
  const columns = output.byteLength / dtypeBytes[dtype];
  const results = context.scratch(4 * columns);
  enqueue(context, problem, shape, results, "scratch", choice);
  store(context, results, output, { batch: 1, rows: 1, columns });
}

/** All that programs are made for: the facts of the choice, and how the operands lie. */
interface AlignedShape extends ConvShape {
  /** Starts at a multiple of four elements. */
  readonly alignedInput: boolean;
  readonly alignedFilter: boolean;
  /** Every run of four pixels that starts at a multiple of four lies in one image and is aligned. */
  readonly vectorOutput: boolean;
}

function shapeOf(problem: Problem, features: DeviceFeatures): AlignedShape {
  const { dtype, batch, groups, inChannels, outChannels, kernelHeight, kernelWidth } = problem;
  const { outHeight, outWidth, strideY, strideX, bias, dilationY, dilationX } = problem;
  const channelsLast = keepsChannelsLast(problem);
  const depthwise = !channelsLast && inChannels === groups && dilationY === 1 && dilationX === 1;
  const square = kernelHeight === kernelWidth && strideY === strideX;
  const quad = 4 * dtypeBytes[dtype];
  return {
    dtype,
    batch,
    groups,
    groupOutputs: outChannels / groups,
    taps: (inChannels / groups) * kernelHeight * kernelWidth,
    pixels: batch * outHeight * outWidth,
    pointwise: isPoint(problem) && strideY === 1 && strideX === 1 && groups === 1 && bias === undefined,
    window: depthwise && square ? { side: kernelHeight, stride: strideY } : undefined,
    alignedInput: problem.input.byteOffset % quad === 0,
    alignedFilter: problem.filter.byteOffset % quad === 0,
    vectorOutput: (outHeight * outWidth) % 4 === 0 && problem.output.byteOffset % quad === 0,
    ...(!channelsLast && mayTransform(problem, features)
      ? { transformable: { height: outHeight, width: outWidth } }
      : {}),
    ...(channelsLast ? { channelsLast } : {}),
    ...(maySplit(problem, features) ? { splittable: inChannels } : {}),
  };
}

/** Whether transforms are allowed, and there is room for them. */
function mayTransform(problem: Problem, features: DeviceFeatures): boolean {
  const { transformedConvolutions = "never" } = features;
  if (transformedConvolutions === "never" || problem.plain === true) return false;
  if (problem.input.byteLength === 0 || !isTransformable(problem.dtype, problem)) return false;
  return tilesAtATime(problem, transformedConvolutions, features) > 0;
}

/** Fewer channels would leave most of a copy of the input, and of the products, empty; see docs/decisions/0010-f32-products-in-f16.md. */
const FEWEST_SPLIT_CHANNELS = 8;

/** Whether numbers may be split, and there is room for a copy of the input. */
function maySplit(problem: Problem, features: DeviceFeatures): boolean {
  const { dtype, batch, groups, inChannels, kernelHeight, kernelWidth, input } = problem;
  if (features.splitsProducts !== true || dtype !== "f32" || groups !== 1) return false;
  if (inChannels < FEWEST_SPLIT_CHANNELS || input.byteLength === 0) return false;
  const { height, width } = windowExtents(problem);
  const bytes = 4 * batch * height * width * paddedChannels(inChannels);
  return (
    inChannels * kernelHeight * kernelWidth >= SHORTEST_SPLIT &&
    bytes <= windowBytes(features) &&
    // As much as the division into segments reckons with.
    bytes <= Math.max(PARTIAL_SUM_BYTES, 4 * input.byteLength)
  );
}

/** Whether each pixel has one place in the input, and none is in the padding. */
function isPoint({ kernelHeight, kernelWidth, top, left, bottom, right }: Problem): boolean {
  return kernelHeight === 1 && kernelWidth === 1 && top + left + bottom + right === 0;
}

/** For each image, filter (outChannels x inChannels) times input (inChannels x pixels). */
function runPointwise(context: KernelContext, problem: Problem): void {
  const { dtype, batch, inChannels, outChannels, height, width } = problem;
  const pixels = height * width;
  runGemm(context, {
    ...{ dtype, batch, m: outChannels, n: pixels, k: inChannels },
    ...{ alpha: 1, beta: 0, transA: false, transB: false },
    ...{ lda: inChannels, ldb: pixels, ldc: pixels },
    ...{ strideA: 0, strideB: inChannels * pixels, strideC: outChannels * pixels },
    ...{ a: problem.filter, b: problem.input, c: problem.output },
    ...{ bias: undefined, activation: problem.activation },
  });
}

function writesQuads({ vectorOutput }: AlignedShape, { outWidth }: Problem, { kind }: ConvVariant): boolean {
  return vectorOutput && (kind === "implicit" || (kind === "strip" && outWidth % 4 === 0));
}

/** Enqueues commands that leave the results in `results`: the output, or f32 scratch in the order of the output. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  shape: AlignedShape,
  results: BufferRegion,
  target: ConvResult["target"],
  { variant, partDepth }: ConvChoice,
): void {
  const { dtype, inChannels, outChannels, groups, kernelHeight, kernelWidth, bias, activation } = problem;
  const { height, width, outHeight, outWidth, strideY, strideX, top, left } = problem;
  const { taps, groupOutputs, pixels } = shape;
  // Without input channels, rows or columns there is nothing to bind.
  const nothing = problem.input.byteLength === 0 ? context.scratch(16) : undefined;
  const input = nothing ?? problem.input;
  const filter_ = taps === 0 ? nothing! : problem.filter;
  const ends = (regions: Record<string, BufferRegion>) => {
    if (bias !== undefined) regions.bias = bias;
    regions.output = results;
    return regions;
  };
  // Written out, as spreading objects takes longer than all the rest of a call.
  const parameters = {
    out_height: outHeight,
    out_width: outWidth,
    groups,
    group_outputs: groupOutputs,
    height,
    width,
    in_channels: inChannels,
    group_channels: inChannels / groups,
    kernel_height: kernelHeight,
    kernel_width: kernelWidth,
    pixels,
    stride_y: strideY,
    stride_x: strideX,
    top,
    left,
    dilation_y: problem.dilationY,
    dilation_x: problem.dilationX,
    part_depth: partDepth,
  };
  const vectorOutput = target === "output" ? shape.vectorOutput : (outHeight * outWidth) % 4 === 0;
  const form: ConvResult = { dtype, bias: bias !== undefined, target, vectorOutput, activation };

  if (variant.kind === "direct") {
    const { channels, lanes } = variant.tile;
    const across = Math.ceil(pixels / (lanes * variant.tile.pixels));
    const count = across * Math.ceil(groupOutputs / channels) * groups;
    const program = directProgram(variant.tile, { ...form, vectorOutput: false });
    context.dispatch(program, ends({ input, filter_ }), parameters, count);
  } else if (variant.kind === "strip") {
    const { side, rows, lanes } = variant.tile;
    const vectorInput = width % 4 === 0 && shape.alignedInput && left < side;
    const stripForm = {
      ...{ ...form, vectorOutput: vectorOutput && outWidth % 4 === 0 },
      vectorLeft: vectorInput ? left : undefined,
    };
    const strips = Math.ceil(outWidth / 4) * Math.ceil(outHeight / rows) * problem.batch * outChannels;
    const program = stripProgram(variant.tile, stripForm);
    context.dispatch(program, ends({ input, filter_ }), parameters, Math.ceil(strips / lanes));
  } else if (variant.kind === "transformed") {
    const rowsAreQuads = convolutionTransforms[variant.tile].outputs === 4 && outWidth % 4 === 0;
    runTransformed(context, problem, variant.tile, { ...form, vectorOutput: vectorOutput && rowsAreQuads });
  } else if (variant.kind === "split") {
    const plain = implicitForm(problem, shape, form);
    splitting.get().enqueueSplit(context, problem, variant, form, plain, ends({}), parameters);
  } else if (variant.kind === "implicit") {
    const parts = Math.ceil(taps / partDepth);
    const count = convTileCount(shape, variant.tile) * parts;
    const product = (result: ConvResult) =>
      implicitProgram(variant.tile, implicitForm(problem, shape, result));
    if (parts === 1) {
      context.dispatch(product(form), ends({ input, filter_ }), parameters, count);
      return;
    }
    const total = outChannels * pixels;
    const sums = context.scratch(4 * parts * total);
    const partial: ConvResult = {
      ...{ dtype, bias: false, target: "scratch", vectorOutput: (outHeight * outWidth) % 4 === 0 },
    };
    context.dispatch(product(partial), { input, filter_, output: sums }, parameters, count);
    context.dispatch(
      combineProgram(form),
      ends({ sums }),
      {
        out_height: outHeight,
        out_width: outWidth,
        groups,
        group_outputs: groupOutputs,
        parts,
        count: total,
      },
      Math.ceil(total / (vectorOutput ? 4 : 1) / WORKGROUP_SIZE),
    );
  }
}

function implicitForm(
  problem: Problem,
  shape: AlignedShape,
  { dtype, bias, target, vectorOutput, activation }: ConvResult,
): ImplicitForm {
  const vectorFilter = shape.taps % 4 === 0 && shape.alignedFilter;
  return {
    dtype,
    bias,
    target,
    vectorOutput,
    activation,
    vectorFilter,
    patches: patchesOf(problem, shape),
  };
}

function patchesOf(problem: Problem, { alignedInput }: AlignedShape): Patches {
  if (!isPoint(problem)) return "padded";
  const { strideY, strideX, height, width } = problem;
  const neighbours = strideY === 1 && strideX === 1 && (height * width) % 4 === 0;
  return neighbours && alignedInput ? "quads" : "points";
}
