import {
  type Conv2dFilterGradientProblem,
  dtypeBytes,
  filterGradientProduct,
  filterGradientSteps,
  floatTypes,
  stridedMove,
} from "@backplane/core";
import { kernelsOfSteps, planSteps, regionsOf } from "../conv2d-gradients/index.js";
import { copy } from "../copy/index.js";
import { byFloatType } from "../elements/index.js";
import { gemm } from "../gemm/index.js";
import { address, type CpuMemory, type CpuOperation, type Launch, type PlanContext } from "../kernel.js";
import { packNanoseconds } from "../panels/index.js";
import { tileColumns, tileRows } from "../tile/index.js";
import { evenParts } from "../vector/index.js";
import { dotsKernel, dotTaps } from "./dots.wasm.js";
import { finishKernel } from "./finish.wasm.js";
import { packKernel, packLines } from "./pack.wasm.js";
import { type Planes, planPlanes } from "./planes.js";
import { productsKernel } from "./products.wasm.js";
import { mostTaps } from "./sums.js";

type Problem = Conv2dFilterGradientProblem<CpuMemory>;

const packKernels = byFloatType(packKernel);
const finishKernels = byFloatType(finishKernel);

/** With fewer output channels in a group it is faster to take one at a time, along its rows. */
const fewestPanelChannels = 4;
/** Pixels between two additions to the sums, roughly; summing in blocks keeps rounding errors small. */
const blockPixels = 256;
/** Panels of a chunk, at most. */
const mostPanels = 4;
/** Output channels of a chunk that takes one at a time, at most. */
const mostChannels = 8;
/** Chunks that are enough for any number of workers: fewer results are summed in parts. */
const enoughChunks = 32;
/** Roughly how long a multiply-add takes one worker. */
const productNanoseconds = 0.05;

/** How the results and the sums are divided up; a function of the problem and the engine alone. */
export interface FilterGradientBlocks {
  readonly form: "products" | "dots";
  /** Output channels of a panel, and panels of a group. */
  readonly width: number;
  readonly panels: number;
  readonly panelBlock: number;
  readonly paddedTaps: number;
  readonly tapBlock: number;
  readonly rowBlock: number;
  readonly units: number;
  readonly unitsPerPart: number;
  readonly parts: number;
}

export function blocksOf(
  {
    batch,
    groups,
    inChannels,
    outChannels,
    kernelHeight,
    kernelWidth,
  }: Pick<Problem, "batch" | "groups" | "inChannels" | "outChannels" | "kernelHeight" | "kernelWidth">,
  { outHeight, outWidth }: Pick<Problem, "outHeight" | "outWidth">,
  rows: number,
): FilterGradientBlocks {
  const groupOutputs = outChannels / groups;
  const taps = (inChannels / groups) * kernelHeight * kernelWidth;
  const form = groupOutputs < fewestPanelChannels ? "dots" : "products";
  const [width, unit, most] = form === "dots" ? [1, dotTaps, mostChannels] : [tileColumns, rows, mostPanels];
  const panels = Math.ceil(groupOutputs / width);
  const panelBlock = Math.min(panels, most);
  const paddedTaps = Math.ceil(taps / unit) * unit;
  const tapBlock = evenParts(paddedTaps, mostTaps - (mostTaps % unit), unit);
  const rowBlock = Math.min(outHeight, Math.max(1, Math.round(blockPixels / outWidth)));
  const units = batch * Math.ceil(outHeight / rowBlock);
  const chunks = groups * Math.ceil(panels / panelBlock) * Math.ceil(paddedTaps / tapBlock);
  const unitsPerPart = Math.ceil(units / Math.min(units, Math.ceil(enoughChunks / chunks)));
  const parts = Math.ceil(units / unitsPerPart);
  return {
    ...{ form, width, panels, panelBlock, paddedTaps, tapBlock, rowBlock, units, unitsPerPart, parts },
  };
}

/** Shorter rows are slower than long ones. */
const shortRow = 32;

/** If short rows follow one another without a gap, images are single rows. */
function flattened(problem: Problem, { pitch }: Planes): Pick<Problem, "outHeight" | "outWidth"> {
  const { outHeight, outWidth } = problem;
  return pitch === outWidth && outWidth < shortRow
    ? { outHeight: 1, outWidth: outHeight * outWidth }
    : { outHeight, outWidth };
}

function plan(problem: Problem, context: PlanContext): readonly Launch[] {
  const product = filterGradientProduct(problem);
  if (product !== undefined) return gemm.plan(product.problem, context);
  const planes = planPlanes(problem, context);
  if (planes === undefined)
    return planSteps(filterGradientSteps(problem, regionsOf(context)), context, false);
  const { dtype, layout, batch, groups, inChannels, outChannels, kernelHeight, kernelWidth } = problem;
  const { workspace, features } = context;
  const shape = flattened(problem, planes);
  const blocks = blocksOf(problem, shape, tileRows(features));
  const { form, width, panels, panelBlock, paddedTaps, tapBlock, rowBlock, units, unitsPerPart, parts } =
    blocks;
  const groupOutputs = outChannels / groups;
  const groupInputs = inChannels / groups;
  const taps = groupInputs * kernelHeight * kernelWidth;
  const pixels = problem.outHeight * problem.outWidth;
  const launches = [...planes.launches];

  let gradient = address(problem.outputGradient);
  const elements = batch * outChannels * pixels;
  if (form === "products") {
    const packed = workspace(4 * batch * groups * panels * tileColumns * pixels);
    const parameters = {
      ...{ gradient, panels: packed, groups, groupOutputs, panelsPerGroup: panels, pixels },
      imageBytes: outChannels * pixels * dtypeBytes[dtype],
      ...packLines(dtype, layout, outChannels, pixels),
    };
    const chunks = batch * groups * panels;
    launches.push(packKernels[dtype].launch(parameters, chunks, elements * packNanoseconds));
    gradient = packed;
  } else if (layout === "NHWC" || dtypeBytes[dtype] !== dtypeBytes.f32) {
    const [channel, pixel] = layout === "NHWC" ? [1, outChannels] : [pixels, 1];
    const rows = regionsOf(context)(4 * elements);
    const move = stridedMove(
      dtype,
      [
        { extent: batch, input: outChannels * pixels, output: outChannels * pixels },
        { extent: outChannels, input: channel, output: pixels },
        { extent: pixels, input: pixel, output: 1 },
      ],
      { region: problem.outputGradient, first: 0 },
      { region: rows, first: 0 },
      "f32",
    );
    launches.push(...copy.plan(move, context));
    gradient = address(rows);
  }

  const partBytes = 4 * groups * panels * width * paddedTaps;
  const sums = workspace(parts * partBytes);
  const panelBlocks = Math.ceil(panels / panelBlock);
  const tapBlocks = Math.ceil(paddedTaps / tapBlock);
  const kernel = form === "products" ? productsKernel : dotsKernel;
  launches.push(
    kernel.launch(
      {
        ...{ planes: planes.address, gradient, sums, kernelHeight, kernelWidth },
        ...{ strideY: problem.strideY, strideX: problem.strideX },
        ...{ dilationY: problem.dilationY, dilationX: problem.dilationX },
        ...{ ...shape, groups, groupOutputs, groupInputs, inChannels, taps, paddedTaps },
        ...{ pitchBytes: 4 * planes.pitch, phaseBytes: 4 * planes.phase, planeBytes: 4 * planes.plane },
        ...{ panels, panelBlock, panelBlocks, tapBlock, tapBlocks, rowBlock, units, unitsPerPart },
        rowBlocks: Math.ceil(shape.outHeight / rowBlock),
      },
      parts * groups * panelBlocks * tapBlocks,
      elements * taps * productNanoseconds,
    ),
  );
  launches.push(
    finishKernels[dtype].launch(
      {
        ...{ sums, output: address(problem.filterGradient), accumulate: problem.accumulate ? 1 : 0 },
        ...{ parts, partBytes, groupOutputs, width, panels, taps, paddedTaps },
      },
      outChannels,
      outChannels * taps * parts * packNanoseconds,
    ),
  );
  return launches;
}

export const conv2dFilterGradient: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: [
    ...kernelsOfSteps,
    productsKernel,
    dotsKernel,
    ...Object.values(packKernels),
    ...Object.values(finishKernels),
  ],
  plan,
};
