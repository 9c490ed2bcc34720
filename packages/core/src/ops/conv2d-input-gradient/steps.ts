import { dtypeBytes } from "../../dtype.js";
import type { Region } from "../../region.js";
import { isOneWindow, isPointwise } from "../conv2d/geometry.js";
import { accumulatingSteps, type GradientStep, gradientProduct, type Scratch } from "../conv2d/steps.js";
import { stridedMove, transposition } from "../copy/index.js";
import type { Conv2dInputGradientProblem } from "./index.js";

type Problem<Memory> = Conv2dInputGradientProblem<Memory>;
type Steps<Memory> = readonly GradientStep<Memory>[];

/**
 * The gradient by problems of other operations, for backends without kernels of their own for all of its forms.
 *
 * With stride 1 it is a convolution of the output's gradient with the filter turned around, its channels exchanged.
 * Otherwise the input pixels that meet the same places of the filter, which lie a stride apart, are such a
 * convolution with these places: each such phase is computed by itself and then moved to its pixels. If no two
 * windows overlap, all is one product of matrices, whose rows are moved.
 */
export function inputGradientSteps<Memory>(
  problem: Problem<Memory>,
  scratch: Scratch<Memory>,
): Steps<Memory> {
  const product = asProduct(problem);
  if (product !== undefined) return [product];
  const operands = { other: problem.filter, result: problem.inputGradient };
  return accumulatingSteps(problem, operands, scratch, (plain, { other, result }) =>
    overwritingSteps({ ...plain, filter: other, inputGradient: result }, scratch),
  );
}

/** A window of one pixel, or one window that is the whole input: a product of matrices, which may accumulate. */
function asProduct<Memory>(problem: Problem<Memory>): GradientStep<Memory> | undefined {
  const { dtype, layout, batch, inChannels, outChannels, height, width, groups, accumulate } = problem;
  const { outputGradient, filter, inputGradient: c } = problem;
  if (groups > 1) return undefined;
  const pixels = height * width;
  if (isPointwise(problem) && layout === "NHWC")
    return gradientProduct({
      ...{ dtype, m: batch * pixels, n: inChannels, k: outChannels, transA: false, transB: false },
      ...{ a: outputGradient, b: filter, c, accumulate },
    });
  if (isPointwise(problem) && (batch === 1 || accumulate))
    return gradientProduct({
      ...{ dtype, batch, m: inChannels, n: pixels, k: outChannels, transA: true, transB: false },
      ...{ a: filter, b: outputGradient, c, accumulate },
    });
  if (isOneWindow(problem) && layout === "NCHW")
    return gradientProduct({
      ...{ dtype, m: batch, n: inChannels * pixels, k: outChannels, transA: false, transB: false },
      ...{ a: outputGradient, b: filter, c, accumulate },
    });
  return undefined;
}

function overwritingSteps<Memory>(problem: Problem<Memory>, scratch: Scratch<Memory>): Steps<Memory> {
  const { dtype, layout, batch, inChannels, outChannels, height, width, outHeight, outWidth } = problem;
  if (layout === "NCHW") return planeSteps(problem, scratch);
  const [pixels, outPixels] = [height * width, outHeight * outWidth];
  const { outputGradient, inputGradient } = problem;
  const bytes = (count: number) => count * dtypeBytes[dtype];
  const planes =
    outChannels > 1 && outPixels > 1 ? scratch(bytes(batch * outChannels * outPixels)) : outputGradient;
  const results = inChannels > 1 && pixels > 1 ? scratch(bytes(batch * inChannels * pixels)) : inputGradient;
  return [
    ...(planes === outputGradient
      ? []
      : [
          {
            operation: "copy" as const,
            problem: transposition(dtype, [batch, outPixels, outChannels], outputGradient, planes),
          },
        ]),
    ...planeSteps({ ...problem, layout: "NCHW", outputGradient: planes, inputGradient: results }, scratch),
    ...(results === inputGradient
      ? []
      : [
          {
            operation: "copy" as const,
            problem: transposition(dtype, [batch, inChannels, pixels], results, inputGradient),
          },
        ]),
  ];
}

/** Along one axis: the input pixels that meet the same places of the filter, and how. */
export interface Phase {
  /** The first of these pixels, and how many there are, a stride apart. */
  readonly first: number;
  readonly count: number;
  /** The last place of the filter that they meet, how many, and the distance between them. */
  readonly lastTap: number;
  readonly taps: number;
  readonly tapStep: number;
  /** The rows of the output's gradient that are met, the zeros around them, and the dilation of the convolution. */
  readonly used: number;
  readonly size: number;
  readonly before: number;
  readonly after: number;
  readonly spread: number;
}

/** One axis of a convolution. */
interface Axis {
  readonly size: number;
  readonly outputs: number;
  readonly kernel: number;
  readonly stride: number;
  readonly padding: number;
  readonly dilation: number;
}

/**
 * Pixel y meets tap i in output (y + padding - i * dilation) / stride, if that is whole. Taps i, i + tapStep, ... belong to
 * the same pixels, and their outputs are `spread` apart. Taps that only meet the padding are left out.
 */
export function phasesOf({ size, outputs, kernel, stride, padding, dilation }: Axis): readonly Phase[] {
  const common = greatestDivisor(stride, dilation);
  const [tapStep, spread] = [stride / common, dilation / common];
  const phases: Phase[] = [];
  for (let tap = 0; tap < Math.min(kernel, tapStep); tap++) {
    const first = (((tap * dilation - padding) % stride) + stride) % stride;
    if (first >= size) continue;
    const count = Math.floor((size - 1 - first) / stride) + 1;
    // Pixel number q meets tap number a in output q + shift - a * spread.
    const shift = (first + padding - tap * dilation) / stride;
    const most = Math.ceil((kernel - tap) / tapStep) - 1;
    const least = Math.max(0, Math.ceil((shift - outputs + 1) / spread));
    const last = Math.min(most, Math.floor((count - 1 + shift) / spread));
    if (last < least) continue;
    const [start, end] = [shift - last * spread, count - 1 + shift - least * spread];
    const used = Math.max(0, start);
    const usedEnd = Math.min(outputs - 1, end);
    phases.push({
      ...{ first, count, lastTap: tap + last * tapStep, taps: last - least + 1, tapStep },
      ...{ used, size: usedEnd + 1 - used, before: used - start, after: end - usedEnd },
      spread: last > least ? spread : 1,
    });
  }
  return phases;
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b);
}

function planeSteps<Memory>(problem: Problem<Memory>, scratch: Scratch<Memory>): Steps<Memory> {
  const { height, width, top, left, inputGradient } = problem;
  const rows = phasesOf({
    ...{ size: height, outputs: problem.outHeight, kernel: problem.kernelHeight },
    ...{ stride: problem.strideY, padding: top, dilation: problem.dilationY },
  });
  const columns = phasesOf({
    ...{ size: width, outputs: problem.outWidth, kernel: problem.kernelWidth },
    ...{ stride: problem.strideX, padding: left, dilation: problem.dilationX },
  });
  const fill: Steps<Memory> = [{ operation: "fill", problem: inputGradient }];
  if (rows.length * columns.length > 1 && areApart(problem)) {
    const { kernelHeight, kernelWidth, outHeight, outWidth } = problem;
    const areAll = kernelHeight * outHeight === height && kernelWidth * outWidth === width;
    return [...(areAll ? [] : fill), ...apartSteps(problem, scratch)];
  }
  const met = (phases: readonly Phase[]) => phases.reduce((sum, { count }) => sum + count, 0);
  const areAll = met(rows) === height && met(columns) === width;
  return [
    ...(areAll ? [] : fill),
    ...rows.flatMap((row) => columns.flatMap((column) => phaseSteps(problem, row, column, scratch))),
  ];
}

/** Whether no two windows overlap, and none reaches into the padding. */
function areApart(problem: Problem<unknown>): boolean {
  const { height, width, top, left, groups, outHeight, outWidth, kernelHeight, kernelWidth } = problem;
  const { strideY, strideX, dilationY, dilationX } = problem;
  const along = (size: number, outputs: number, kernel: number, stride: number, dilation: number) =>
    ((kernel - 1) * dilation < stride || outputs === 1) &&
    (outputs - 1) * stride + (kernel - 1) * dilation < size;
  return (
    groups === 1 &&
    top + left === 0 &&
    along(height, outHeight, kernelHeight, strideY, dilationY) &&
    along(width, outWidth, kernelWidth, strideX, dilationX)
  );
}

/** Windows that do not overlap: for each image filter^T (inChannels * taps x outChannels) times the output's gradient. */
function apartSteps<Memory>(problem: Problem<Memory>, scratch: Scratch<Memory>): Steps<Memory> {
  const { dtype, batch, inChannels, outChannels, height, width, outHeight, outWidth } = problem;
  const { kernelHeight, kernelWidth, strideY, strideX, dilationY, dilationX } = problem;
  const pixels = outHeight * outWidth;
  const m = inChannels * kernelHeight * kernelWidth;
  const c = scratch(batch * m * pixels * dtypeBytes[dtype]);
  const product = gradientProduct({
    ...{ dtype, batch, m, n: pixels, k: outChannels, transA: true, transB: false },
    ...{ a: problem.filter, b: problem.outputGradient, c, accumulate: false },
  });
  const move = stridedMove(
    dtype,
    [
      {
        ...{ extent: batch * inChannels, input: kernelHeight * kernelWidth * pixels },
        output: height * width,
      },
      { extent: kernelHeight, input: kernelWidth * pixels, output: dilationY * width },
      { extent: kernelWidth, input: pixels, output: dilationX },
      { extent: outHeight, input: outWidth, output: strideY * width },
      { extent: outWidth, input: 1, output: strideX },
    ],
    { region: c, first: 0 },
    { region: problem.inputGradient, first: 0 },
  );
  return [product, { operation: "copy", problem: move }];
}

function phaseSteps<Memory>(
  problem: Problem<Memory>,
  y: Phase,
  x: Phase,
  scratch: Scratch<Memory>,
): Steps<Memory> {
  const { dtype, batch, inChannels, outChannels, height, width, outHeight, outWidth, groups } = problem;
  const bytes = (count: number) => count * dtypeBytes[dtype];
  const isCropped = y.size < outHeight || x.size < outWidth;
  const input = isCropped ? scratch(bytes(batch * outChannels * y.size * x.size)) : problem.outputGradient;
  const isWhole = y.count === height && x.count === width;
  const output = isWhole ? problem.inputGradient : scratch(bytes(batch * inChannels * y.count * x.count));
  const { filter, move } = turnedFilter(problem, y, x, scratch);
  const crop = stridedMove(
    dtype,
    [
      { extent: batch * outChannels, input: outHeight * outWidth, output: y.size * x.size },
      { extent: y.size, input: outWidth, output: x.size },
      { extent: x.size, input: 1, output: 1 },
    ],
    { region: problem.outputGradient, first: y.used * outWidth + x.used },
    { region: input, first: 0 },
  );
  const place = stridedMove(
    dtype,
    [
      { extent: batch * inChannels, input: y.count * x.count, output: height * width },
      { extent: y.count, input: x.count, output: problem.strideY * width },
      { extent: x.count, input: 1, output: problem.strideX },
    ],
    { region: output, first: 0 },
    { region: problem.inputGradient, first: y.first * width + x.first },
  );
  return [
    move,
    ...(isCropped ? [{ operation: "copy" as const, problem: crop }] : []),
    {
      operation: "conv2d",
      problem: {
        ...{ dtype, layout: "NCHW", batch, groups, input, filter, output },
        ...{ inChannels: outChannels, height: y.size, width: x.size },
        ...{ outChannels: inChannels, outHeight: y.count, outWidth: x.count },
        ...{ kernelHeight: y.taps, kernelWidth: x.taps, strideY: 1, strideX: 1 },
        ...{ top: y.before, left: x.before, bottom: y.after, right: x.after },
        ...{ dilationY: y.spread, dilationX: x.spread, bias: undefined, activation: undefined },
      },
    },
    ...(isWhole ? [] : [{ operation: "copy" as const, problem: place }]),
  ];
}

/**
 * The places of the filter that a phase meets, the last one first, as a filter of the convolution:
 * [inChannels, outChannels / groups, y.taps, x.taps].
 */
function turnedFilter<Memory>(
  problem: Problem<Memory>,
  y: Phase,
  x: Phase,
  scratch: Scratch<Memory>,
): { readonly filter: Region<Memory>; readonly move: GradientStep<Memory> } {
  const { dtype, inChannels, outChannels, groups, kernelHeight, kernelWidth } = problem;
  const [inputs, outputs] = [inChannels / groups, outChannels / groups];
  const plane = kernelHeight * kernelWidth;
  const taps = y.taps * x.taps;
  const filter = scratch(inChannels * outputs * taps * dtypeBytes[dtype]);
  const move = stridedMove(
    dtype,
    [
      { extent: groups, input: outputs * inputs * plane, output: inputs * outputs * taps },
      { extent: inputs, input: plane, output: outputs * taps },
      { extent: outputs, input: inputs * plane, output: taps },
      { extent: y.taps, input: -y.tapStep * kernelWidth, output: x.taps },
      { extent: x.taps, input: -x.tapStep, output: 1 },
    ],
    { region: problem.filter, first: y.lastTap * kernelWidth + x.lastTap },
    { region: filter, first: 0 },
  );
  return { filter, move: { operation: "copy", problem: move } };
}
