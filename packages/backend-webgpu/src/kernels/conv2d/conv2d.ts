import type { Conv2dProblem } from "@backplane/core";
import type { BufferRegion, KernelContext, KernelDefinition } from "../../context.js";
import { storeHalves } from "../../halves.js";
import type { DeviceMemory } from "../../memory.js";
import { runGemm } from "../gemm/index.js";
import { type ConvForm, directProgram, implicitProgram } from "./conv2d.wgsl.js";
import { selectConv } from "./select.js";
import { type ConvShape, convTileCount } from "./variants.js";

type Problem = Conv2dProblem<DeviceMemory>;

/** conv2d; `forced` names a variant to take wherever it fits (see `convVariants`). */
export function convKernel(forced?: string): KernelDefinition<Problem> {
  return {
    dtypes: ["f32", "f16"],
    run: (context, problem) => runConv(context, problem, forced),
  };
}

export function runConv(context: KernelContext, problem: Problem, forced?: string): void {
  const { dtype, batch, output } = problem;
  const shape = shapeOf(problem);
  if (selectConv(shape, context.features, forced).kind === "gemm") {
    runPointwise(context, problem);
    return;
  }
  if (dtype === "f32") {
    enqueue(context, problem, output, forced);
    return;
  }
  // f32 results in scratch are rounded into the output, as many images at once as one binding may hold.
  const bytes = 2 * output.byteLength;
  if (bytes > context.features.limits.maxStorageBufferBindingSize && batch > 1) {
    const first = Math.ceil(batch / 2);
    runConv(context, images(problem, 0, first), forced);
    runConv(context, images(problem, first, batch), forced);
    return;
  }
  const results = context.scratch(bytes);
  enqueue(context, problem, results, forced);
  storeHalves(context, results, output, { batch: 1, rows: 1, columns: output.byteLength / 2 });
}

/** The part of a problem that is about the images from `first` to before `end`. */
function images(problem: Problem, first: number, end: number): Problem {
  const part = (region: BufferRegion): BufferRegion => {
    const bytes = region.byteLength / problem.batch;
    return {
      ...region,
      byteOffset: region.byteOffset + first * bytes,
      byteLength: (end - first) * bytes,
    };
  };
  return { ...problem, batch: end - first, input: part(problem.input), output: part(problem.output) };
}

function shapeOf(problem: Problem): ConvShape {
  const { dtype, batch, groups, inChannels, outChannels, kernelHeight, kernelWidth } = problem;
  const { outHeight, outWidth, strideY, strideX, top, left, bottom, right, bias } = problem;
  const oneTap = kernelHeight === 1 && kernelWidth === 1 && strideY === 1 && strideX === 1;
  const unpadded = top === 0 && left === 0 && bottom === 0 && right === 0;
  return {
    ...{ dtype, batch, groups },
    groupOutputs: outChannels / groups,
    taps: (inChannels / groups) * kernelHeight * kernelWidth,
    pixels: batch * outHeight * outWidth,
    pointwise: oneTap && unpadded && groups === 1 && bias === undefined,
  };
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
  });
}

/** Enqueues the kernel that leaves f32 results, in the order of the output, in `results`. */
function enqueue(
  context: KernelContext,
  problem: Problem,
  results: BufferRegion,
  forced: string | undefined,
): void {
  const { dtype, inChannels, groups, kernelHeight, kernelWidth, bias } = problem;
  const shape = shapeOf(problem);
  const { taps, groupOutputs, pixels } = shape;
  const variant = selectConv(shape, context.features, forced);
  // Without input channels there is nothing to bind.
  const nothing = taps === 0 ? context.scratch(16) : undefined;
  const regions = {
    input: nothing ?? problem.input,
    filter_: nothing ?? problem.filter,
    ...(bias === undefined ? {} : { bias }),
    output: results,
  };
  const parameters = {
    ...{ height: problem.height, width: problem.width, in_channels: inChannels },
    ...{ group_channels: inChannels / groups, kernel_height: kernelHeight, kernel_width: kernelWidth },
    ...{ out_height: problem.outHeight, out_width: problem.outWidth },
    ...{ stride_y: problem.strideY, stride_x: problem.strideX, top: problem.top, left: problem.left },
    ...{ dilation_y: problem.dilationY, dilation_x: problem.dilationX },
    ...{ groups, group_outputs: groupOutputs, pixels },
  };
  const form: ConvForm = { dtype, bias: bias !== undefined, vectorFilter: false };
  if (variant.kind === "implicit") {
    const unit = dtype === "f32" ? 16 : 8;
    const vectorFilter = taps % 4 === 0 && problem.filter.byteOffset % unit === 0;
    const program = implicitProgram(variant.tile, { ...form, vectorFilter });
    context.dispatch(program, regions, parameters, convTileCount(shape, variant.tile));
  } else if (variant.kind === "direct") {
    const { channels, lanes } = variant.tile;
    const across = Math.ceil(pixels / (lanes * variant.tile.pixels));
    const groupCount = across * Math.ceil(groupOutputs / channels) * groups;
    context.dispatch(directProgram(variant.tile, form), regions, parameters, groupCount);
  }
}
