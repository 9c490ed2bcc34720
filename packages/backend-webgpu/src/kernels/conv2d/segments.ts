import { channelsLastSteps, dtypeBytes, isTransformable } from "@backplane/core";
import type { BufferRegion, KernelContext, OperationContext } from "../../runtime/index.js";
import {
  indivisible,
  kernelFits,
  middleOf,
  move,
  placeholder,
  type Run,
  type Segmentation,
  type SegmentTools,
  scratchBytes,
  sliceOf,
  storeFarRounded,
  windowBytes,
  windowOf,
} from "../segments/index.js";
import { keepsChannelsLast } from "./channels-last.js";
import type { ConvProblem } from "./problem.js";

type Problem = ConvProblem;
type Tools = SegmentTools<Problem>;

/**
 * Transposes images with channels last, whatever their size, unless a kernel takes them as they lie. Cuts batch, groups and output channels into problems of their own, as long as the operands stay in one
 * piece. If the input of one group of one image does not fit, computes it block by block.
 */
export function convSegments(tools: Tools): Segmentation<Problem> {
  return {
    longestWindow(problem) {
      const { layout, input, filter, bias, output } = problem;
      if (layout === "NHWC" && !keepsChannelsLast(problem)) return Number.POSITIVE_INFINITY;
      return Math.max(
        windowOf(input),
        windowOf(filter),
        windowOf(output),
        bias === undefined ? 0 : windowOf(bias),
      );
    },
    // Patches of the input, unfolded.
    scratchBound: ({ layout, kernelHeight, kernelWidth }, longest) =>
      layout === "NHWC" ? 0 : 4 * longest * Math.max(kernelHeight * kernelWidth, 64),

    divide(context, whole, run) {
      // Of the whole: pieces of others may look as if transforms applied to them.
      const plain = whole.plain ?? !isTransformable(whole.dtype, whole);
      const problem: Problem = { ...whole, plain };
      const { batch, groups, outChannels } = problem;
      const isTransposed = problem.layout === "NHWC" && (batch === 1 || !keepsChannelsLast(problem));
      if (isTransposed) runTransposed(context, tools, problem, run);
      else if (batch > 1) cut(batch, (first, end) => run(context, images(problem, first, end)));
      else if (groups > 1) cut(groups, (first, end) => run(context, groupsOf(problem, first, end)));
      else if (outChannels > 1 && windowOf(problem.input) <= windowBytes(context.features))
        cut(outChannels, (first, end) => run(context, channels(problem, first, end)));
      else runBlocks(context, tools, problem);
    },
  };
}

function runTransposed(context: OperationContext, tools: Tools, problem: Problem, run: Run<Problem>): void {
  const steps = channelsLastSteps(problem, (bytes) => context.scratch(bytes));
  if (steps.product !== undefined) {
    tools.run("gemm", context, steps.product);
    return;
  }
  if (steps.before !== undefined) tools.run("copy", context, steps.before);
  run(context, steps.convolution);
  if (steps.after !== undefined) tools.run("copy", context, steps.after);
}

function cut(extent: number, run: (first: number, end: number) => void): void {
  const middle = middleOf(extent);
  run(0, middle);
  run(middle, extent);
}

function images(problem: Problem, first: number, end: number): Problem {
  const { batch, input, output } = problem;
  const part = (region: BufferRegion) => shareOf(problem, region, batch, first, end);
  return { ...problem, batch: end - first, input: part(input), output: part(output) };
}

/** Of one image. */
function groupsOf(problem: Problem, first: number, end: number): Problem {
  const { groups, inChannels, input } = problem;
  const some = channels(
    problem,
    (problem.outChannels / groups) * first,
    (problem.outChannels / groups) * end,
  );
  return {
    ...{ ...some, groups: end - first, inChannels: (inChannels / groups) * (end - first) },
    input: shareOf(problem, input, groups, first, end),
  };
}

/** Output channels of one image. */
function channels(problem: Problem, first: number, end: number): Problem {
  const { outChannels, filter, bias, output } = problem;
  const part = (region: BufferRegion) => shareOf(problem, region, outChannels, first, end);
  return {
    ...{ ...problem, outChannels: end - first, filter: part(filter), output: part(output) },
    bias: bias && part(bias),
  };
}

/** Returns the part of [first, end) along the outermost axis, which has `extent` steps. */
function shareOf(
  { dtype }: Problem,
  region: BufferRegion,
  extent: number,
  first: number,
  end: number,
): BufferRegion {
  const step = region.byteLength / dtypeBytes[dtype] / extent;
  return sliceOf(region, dtype, first * step, (end - first) * step);
}

/** [first, end) */
interface Range {
  readonly first: number;
  readonly end: number;
}

/** Axes of results, and of the sums that lead to them. */
const resultAxes = ["outputs", "rows", "columns"] as const;
const sumAxes = ["inputs", "kernelRows", "kernelColumns"] as const;
type Axis = (typeof resultAxes)[number] | (typeof sumAxes)[number];

/** Some results of one group of one image, and some of the terms of their sums. */
type Block = Readonly<Record<Axis, Range>>;

const sizeOf = ({ first, end }: Range): number => end - first;

/**
 * Gathers the input of a block of results into compact f32 scratch: the rows and columns of the input under
 * the block ("halo" included), with the zeros around the image as padding. If that is too much at once, takes
 * some channels or taps at a time and adds up their results in f32.
 */
function runBlocks(context: OperationContext, tools: Tools, problem: Problem): void {
  const whole: Block = {
    outputs: { first: 0, end: problem.outChannels },
    rows: { first: 0, end: problem.outHeight },
    columns: { first: 0, end: problem.outWidth },
    inputs: { first: 0, end: problem.inChannels },
    kernelRows: { first: 0, end: problem.kernelHeight },
    kernelColumns: { first: 0, end: problem.kernelWidth },
  };
  // One size for all blocks of an axis: halve the whole until all blocks fit.
  let block = whole;
  for (;;) {
    const axis = tooLong(context, tools, problem, blocksOf(whole, block, [...resultAxes, ...sumAxes]));
    if (axis === undefined) break;
    block = { ...block, [axis]: { first: 0, end: middleOf(sizeOf(block[axis])) } };
  }
  const results = blocksOf(whole, block, resultAxes);
  const terms = blocksOf(whole, block, sumAxes);
  for (const result of results)
    context.scoped((inner) => {
      const count = resultAxes.reduce((product, axis) => product * sizeOf(result[axis]), 1);
      const sums = inner.scratch(4 * count);
      for (const term of terms) {
        const part = { ...result, ...pick(term, sumAxes) };
        inner.scoped((innermost) => addBlock(innermost, tools, problem, part, { sums, count }));
      }
      if (problem.activation !== undefined)
        tools.run("unary", inner, {
          ...{ dtype: "f32", kind: problem.activation, n: count, input: sums, output: sums },
        });
      storeBlock(inner, problem, result, sums);
    });
}

function pick(block: Block, axes: readonly Axis[]): Partial<Block> {
  return Object.fromEntries(axes.map((axis) => [axis, block[axis]]));
}

/**
 * Returns the whole in blocks of the size of `block` along these axes, in order. Returns at least one, even
 * an empty one.
 */
function blocksOf(whole: Block, block: Block, axes: readonly Axis[]): readonly Block[] {
  let blocks = [whole];
  for (const axis of axes) {
    const size = Math.max(sizeOf(block[axis]), 1);
    const count = Math.max(Math.ceil(sizeOf(whole[axis]) / size), 1);
    blocks = blocks.flatMap((one) =>
      Array.from({ length: count }, (_, i) => {
        const first = i * size;
        return { ...one, [axis]: { first, end: Math.min(first + size, whole[axis].end) } };
      }),
    );
  }
  return blocks;
}

/**
 * Returns the axis to halve next; undefined if all blocks can be computed. Some are smaller, at edges or in padding.
 */
function tooLong(
  context: KernelContext,
  tools: Tools,
  problem: Problem,
  blocks: readonly Block[],
): Axis | undefined {
  const seen = new Set<string>();
  for (const block of blocks) {
    const part = compact(problem, block);
    const key = JSON.stringify(part);
    if (seen.has(key)) continue;
    seen.add(key);
    const axis = tooLongFor(context, tools, problem, block, part);
    if (axis !== undefined) return axis;
  }
  return undefined;
}

function tooLongFor(
  context: KernelContext,
  tools: Tools,
  problem: Problem,
  block: Block,
  part: Problem,
): Axis | undefined {
  const limit = scratchBytes(context.features);
  const longer = (axis: Axis) => sizeOf(block[axis]) > 1;
  const first = (...candidates: readonly Axis[]): Axis => {
    const found = candidates.find(longer);
    if (found === undefined) throw indivisible("conv2d", limit);
    return found;
  };
  if (part.filter.byteLength > limit) return first("outputs", "inputs", "kernelRows", "kernelColumns");
  if (part.output.byteLength > limit) return first("rows", "outputs", "columns");
  if (part.input.byteLength > limit) {
    // Fewer rows help as long as most of them are not needed for the height of the filter.
    const { strideY, strideX, dilationY, dilationX } = problem;
    const reachY = (sizeOf(block.kernelRows) - 1) * dilationY + 1;
    const reachX = (sizeOf(block.kernelColumns) - 1) * dilationX + 1;
    if (longer("rows") && sizeOf(block.rows) * strideY >= reachY) return "rows";
    if (longer("inputs")) return "inputs";
    if (longer("columns") && sizeOf(block.columns) * strideX >= reachX) return "columns";
    return first("kernelRows", "rows", "kernelColumns", "columns");
  }
  if (kernelFits(context, tools.kernel, part)) return undefined;
  return first("rows", "inputs", "outputs", "columns", "kernelRows", "kernelColumns");
}

/** The part of one axis of the input that a block reads, and the zeros around it. */
interface Reach {
  readonly first: number;
  readonly size: number;
  readonly before: number;
  readonly after: number;
}

function reachOf(
  results: Range,
  taps: Range,
  axis: { size: number; padding: number; stride: number; dilation: number },
): Reach {
  const first = results.first * axis.stride + taps.first * axis.dilation - axis.padding;
  const last = (results.end - 1) * axis.stride + (taps.end - 1) * axis.dilation - axis.padding;
  const start = Math.min(Math.max(first, 0), axis.size);
  const size = Math.max(Math.min(last + 1, axis.size) - start, 0);
  const before = Math.min(Math.max(start - first, 0), last + 1 - first);
  return { first: start, size, before, after: last + 1 - first - before - size };
}

function reaches(problem: Problem, block: Block): { readonly y: Reach; readonly x: Reach } {
  const { height, width, top, left, strideY, strideX, dilationY, dilationX } = problem;
  const down = { size: height, padding: top, stride: strideY, dilation: dilationY };
  const across = { size: width, padding: left, stride: strideX, dilation: dilationX };
  return {
    y: reachOf(block.rows, block.kernelRows, down),
    x: reachOf(block.columns, block.kernelColumns, across),
  };
}

/** The problem of one block, in f32, with regions that are yet to be found. */
function compact(problem: Problem, block: Block): Problem {
  const { y, x } = reaches(problem, block);
  const sizes = {
    ...{ inChannels: sizeOf(block.inputs), height: y.size, width: x.size },
    ...{ outChannels: sizeOf(block.outputs), outHeight: sizeOf(block.rows), outWidth: sizeOf(block.columns) },
    ...{ kernelHeight: sizeOf(block.kernelRows), kernelWidth: sizeOf(block.kernelColumns) },
  };
  const taps = sizes.inChannels * sizes.kernelHeight * sizes.kernelWidth;
  return {
    ...{ ...problem, ...sizes, dtype: "f32" },
    ...{ top: y.before, left: x.before, bottom: y.after, right: x.after },
    input: placeholder(4 * sizes.inChannels * sizes.height * sizes.width),
    filter: placeholder(4 * sizes.outChannels * taps),
    activation: undefined, // it follows when the sums are complete
    bias: isFirst(block) ? problem.bias && placeholder(4 * sizes.outChannels) : undefined,
    output: placeholder(4 * sizes.outChannels * sizes.outHeight * sizes.outWidth),
  };
}

/** Whether the block begins the sums. */
function isFirst(block: Block): boolean {
  return sumAxes.every((axis) => block[axis].first === 0);
}

interface Sums {
  readonly sums: BufferRegion;
  readonly count: number;
}

/** Writes the results of a block, or adds them to those of the same place. The first has the bias. */
function addBlock(
  context: OperationContext,
  tools: Tools,
  problem: Problem,
  block: Block,
  { sums, count }: Sums,
): void {
  const part = compact(problem, block);
  const first = isFirst(block);
  const output = first ? sums : context.scratch(4 * count);
  tools.kernel.run(context, {
    ...part,
    input: gatherInput(context, problem, block, part),
    filter: gatherFilter(context, problem, block, part),
    bias: part.bias && gatherBias(context, problem, block),
    output,
  });
  if (first) return;
  const a = { region: sums, strides: [1] };
  const b = { region: output, strides: [1] };
  tools.run("binary", context, { dtype: "f32", kind: "add", shape: [count], n: count, a, b, output: sums });
}

function gatherInput(context: KernelContext, problem: Problem, block: Block, part: Problem): BufferRegion {
  const { dtype, height, width, input } = problem;
  const { y, x } = reaches(problem, block);
  const result = context.scratch(part.input.byteLength);
  const start = (block.inputs.first * height + y.first) * width + x.first;
  move(context, result, from(input, problem, start), dtype, [
    { extent: part.inChannels, from: height * width, to: y.size * x.size },
    { extent: y.size, from: width, to: x.size },
    { extent: x.size, from: 1, to: 1 },
  ]);
  return result;
}

function gatherFilter(context: KernelContext, problem: Problem, block: Block, part: Problem): BufferRegion {
  const { dtype, inChannels, kernelHeight, kernelWidth, filter } = problem;
  const result = context.scratch(part.filter.byteLength);
  const plane = kernelHeight * kernelWidth;
  const start =
    (block.outputs.first * inChannels + block.inputs.first) * plane +
    block.kernelRows.first * kernelWidth +
    block.kernelColumns.first;
  const partPlane = part.kernelHeight * part.kernelWidth;
  move(context, result, from(filter, problem, start), dtype, [
    { extent: part.outChannels, from: inChannels * plane, to: part.inChannels * partPlane },
    { extent: part.inChannels, from: plane, to: partPlane },
    { extent: part.kernelHeight, from: kernelWidth, to: part.kernelWidth },
    { extent: part.kernelWidth, from: 1, to: 1 },
  ]);
  return result;
}

function gatherBias(context: KernelContext, problem: Problem, block: Block): BufferRegion | undefined {
  const { dtype, bias } = problem;
  if (bias === undefined) return undefined;
  const extent = sizeOf(block.outputs);
  const result = context.scratch(4 * extent);
  move(context, result, from(bias, problem, block.outputs.first), dtype, [{ extent, from: 1, to: 1 }]);
  return result;
}

/** The rest of a region from an element on. */
function from(region: BufferRegion, { dtype }: Problem, first: number): BufferRegion {
  return sliceOf(region, dtype, first, region.byteLength / dtypeBytes[dtype] - first);
}

/** Puts finished results into the rows and planes of the output. */
function storeBlock(context: KernelContext, problem: Problem, block: Block, sums: BufferRegion): void {
  const { dtype, outHeight, outWidth, output } = problem;
  const [batch, rows, columns] = resultAxes.map((axis) => sizeOf(block[axis])) as [number, number, number];
  const start = (block.outputs.first * outHeight + block.rows.first) * outWidth + block.columns.first;
  const destination = from(output, problem, start);
  const store = storeFarRounded[dtype];
  if (store !== undefined) {
    const layout = { batch, rows, columns, rowStride: outWidth, batchStride: outHeight * outWidth };
    store(context, sums, destination, layout);
    return;
  }
  move(context, destination, sums, "f32", [
    { extent: batch, from: rows * columns, to: outHeight * outWidth },
    { extent: rows, from: columns, to: outWidth },
    { extent: columns, from: 1, to: 1 },
  ]);
}
