import { dtypeBytes } from "../../dtype.js";
import { isOneWindow, isPointwise } from "../conv2d/geometry.js";
import { accumulatingSteps, type GradientStep, gradientProduct, type Scratch } from "../conv2d/steps.js";
import { stridedMove } from "../copy/index.js";
import type { Conv2dFilterGradientProblem } from "./index.js";

type Problem<Memory> = Conv2dFilterGradientProblem<Memory>;
type Steps<Memory> = readonly GradientStep<Memory>[];

/**
 * The gradient by problems of other operations, for backends without kernels of their own for all of its forms: a
 * convolution of the input, in which images and channels have changed places, with the output's gradient as the
 * filter. Its stride is the dilation, and its dilation the stride.
 */
export function filterGradientSteps<Memory>(
  problem: Problem<Memory>,
  scratch: Scratch<Memory>,
): Steps<Memory> {
  const product = filterGradientProduct(problem);
  if (product !== undefined) return [product];
  const operands = { other: problem.input, result: problem.filterGradient };
  return accumulatingSteps(problem, operands, scratch, (plain, { other, result }) =>
    overwritingSteps({ ...plain, input: other, filterGradient: result }, scratch),
  );
}

/**
 * If windows are of one pixel, or one window is the whole input, the gradient is a product of matrices, which may
 * accumulate. Returns undefined if it is not.
 */
export function filterGradientProduct<Memory>(
  problem: Problem<Memory>,
): Extract<GradientStep<Memory>, { readonly operation: "gemm" }> | undefined {
  const { dtype, layout, batch, inChannels, outChannels, height, width, groups, accumulate } = problem;
  const { outputGradient: a, input: b, filterGradient: c } = problem;
  if (groups > 1) return undefined;
  const pixels = height * width;
  const form = { dtype, m: outChannels, a, b, c, accumulate };
  const across = { transA: true, transB: false };
  if (isPointwise(problem)) {
    if (layout === "NHWC" || pixels === 1)
      return gradientProduct({ ...form, ...across, n: inChannels, k: batch * pixels });
    if (batch === 1)
      return gradientProduct({ ...form, n: inChannels, k: pixels, transA: false, transB: true });
  }
  if (isOneWindow(problem) && layout === "NCHW")
    return gradientProduct({ ...form, ...across, n: inChannels * pixels, k: batch });
  return undefined;
}

function overwritingSteps<Memory>(problem: Problem<Memory>, scratch: Scratch<Memory>): Steps<Memory> {
  const { dtype, layout, batch, inChannels, outChannels, groups, filterGradient } = problem;
  const { kernelHeight, kernelWidth, outHeight, outWidth, top, left } = problem;
  const y = met(problem.height, outHeight, kernelHeight, problem.strideY, problem.dilationY, top);
  const x = met(problem.width, outWidth, kernelWidth, problem.strideX, problem.dilationX, left);
  if (y.size <= 0 || x.size <= 0) return [{ operation: "fill", problem: filterGradient }];
  const bytes = (count: number) => count * dtypeBytes[dtype];
  const channels = inChannels / groups;
  const taps = kernelHeight * kernelWidth;
  const input = scratch(bytes(batch * inChannels * y.size * x.size));
  const filter = scratch(bytes(batch * outChannels * outHeight * outWidth));
  const isDirect = channels === 1 || outChannels === 1;
  const output = isDirect ? filterGradient : scratch(bytes(outChannels * channels * taps));
  const images = { dtype, layout, batch };
  return [
    exchanged(
      { ...images, groups, channels, height: problem.height, width: problem.width },
      y.size,
      x.size,
      problem.input,
      input,
    ),
    exchanged(
      { ...images, groups: outChannels, channels: 1, height: outHeight, width: outWidth },
      outHeight,
      outWidth,
      problem.outputGradient,
      filter,
    ),
    {
      operation: "conv2d",
      problem: {
        ...{ dtype, layout: "NCHW", groups, input, filter, output },
        ...{ batch: channels, inChannels: groups * batch, height: y.size, width: x.size },
        ...{ outChannels, kernelHeight: outHeight, kernelWidth: outWidth },
        ...{ outHeight: kernelHeight, outWidth: kernelWidth },
        ...{ strideY: problem.dilationY, strideX: problem.dilationX },
        ...{ top, left, bottom: y.after, right: x.after },
        ...{ dilationY: outHeight > 1 ? problem.strideY : 1, dilationX: outWidth > 1 ? problem.strideX : 1 },
        ...{ bias: undefined, activation: undefined },
      },
    },
    ...(isDirect
      ? []
      : [
          {
            operation: "copy" as const,
            problem: stridedMove(
              dtype,
              [
                { extent: outChannels, input: taps, output: channels * taps },
                { extent: channels, input: outChannels * taps, output: taps },
                { extent: taps, input: 1, output: 1 },
              ],
              { region: output, first: 0 },
              { region: filterGradient, first: 0 },
            ),
          },
        ]),
  ];
}

/** The first rows (or columns) of the input that windows meet, and the zeros behind them. */
function met(
  size: number,
  outputs: number,
  kernel: number,
  stride: number,
  dilation: number,
  before: number,
): { readonly size: number; readonly after: number } {
  const reach = (outputs - 1) * stride + (kernel - 1) * dilation + 1;
  const used = Math.min(size, reach - before);
  return { size: used, after: reach - before - used };
}

interface ImageGroups {
  readonly dtype: Problem<unknown>["dtype"];
  readonly layout: Problem<unknown>["layout"];
  readonly batch: number;
  readonly groups: number;
  /** Of one group. */
  readonly channels: number;
  readonly height: number;
  readonly width: number;
}

/** Images of some groups of channels, as [channels, groups, batch, rows, columns], the first rows and columns of each. */
function exchanged<Memory>(
  { dtype, layout, batch, groups, channels, height, width }: ImageGroups,
  rows: number,
  columns: number,
  from: Problem<Memory>["input"],
  to: Problem<Memory>["input"],
): GradientStep<Memory> {
  const all = groups * channels;
  const pixels = height * width;
  const [channel, column] = layout === "NHWC" ? [1, all] : [pixels, 1];
  const plane = rows * columns;
  const move = stridedMove(
    dtype,
    [
      { extent: channels, input: channel, output: groups * batch * plane },
      { extent: groups, input: channels * channel, output: batch * plane },
      { extent: batch, input: all * pixels, output: plane },
      { extent: rows, input: column * width, output: columns },
      { extent: columns, input: column, output: 1 },
    ],
    { region: from, first: 0 },
    { region: to, first: 0 },
  );
  return { operation: "copy", problem: move };
}
