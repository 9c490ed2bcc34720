import { floatTypes, type Pool2dGradientProblem, type Pool2dKind, pool2dKinds } from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { pushWindows } from "../images/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { type ChannelsTypes, channelsKernel } from "./channels.wasm.js";
import { type RowsTypes, rowsKernel, rowsLimits } from "./rows.wasm.js";

type Problem = Pool2dGradientProblem<CpuMemory>;

const rows: Readonly<Record<Pool2dKind, Readonly<Record<"f32" | "f16", Kernel<RowsTypes>>>>> = {
  max: byFloatType((dtype) => rowsKernel("max", dtype)),
  mean: byFloatType((dtype) => rowsKernel("mean", dtype)),
};

const channels: Readonly<Record<Pool2dKind, Readonly<Record<"f32" | "f16", Kernel<ChannelsTypes>>>>> = {
  max: byFloatType((dtype) => channelsKernel("max", dtype)),
  mean: byFloatType((dtype) => channelsKernel("mean", dtype)),
};

/** Elements that a chunk should write at least, roughly. */
const chunkElements = 1 << 14;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.3;

/** How a problem is divided up: a function of its shape alone. */
export interface Pool2dGradientPlan {
  readonly form: "rows" | "channels";
  readonly panelWidth: number;
  readonly panels: number;
  readonly rowsPerChunk: number;
}

export function planPool2dGradient(
  problem: Omit<Problem, "outputGradient" | "indices" | "inputGradient" | "dtype">,
): Pool2dGradientPlan {
  const { inner, width, kernelWidth, dilationX, strideX } = problem;
  const isRows =
    inner === 1 && dilationX * (kernelWidth - 1) < rowsLimits.reach && strideX <= rowsLimits.stride;
  const most = isRows ? rowsLimits.columns : Math.max(1, Math.floor(chunkElements / inner));
  const parts = Math.ceil(width / most);
  const panelWidth = Math.ceil(width / parts);
  return {
    form: isRows ? "rows" : "channels",
    panelWidth,
    panels: Math.ceil(width / panelWidth),
    rowsPerChunk: Math.max(1, Math.floor(chunkElements / (panelWidth * inner))),
  };
}

export const pool2dGradient: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: pool2dKinds.flatMap((kind): readonly (Kernel<RowsTypes> | Kernel<ChannelsTypes>)[] => [
    ...Object.values(rows[kind]),
    ...Object.values(channels[kind]),
  ]),

  plan(problem) {
    const { dtype, kind, planes, height, width, inner, indices } = problem;
    const { kernelHeight, kernelWidth, strideY, strideX } = problem;
    const { form, panelWidth, panels, rowsPerChunk } = planPool2dGradient(problem);
    const allRows = planes * height;
    // In the order of `RowsTypes`, or of `ChannelsTypes`.
    const parameters = [
      address(problem.outputGradient),
      indices === undefined ? 0 : address(indices),
      address(problem.inputGradient),
    ];
    if (form === "channels") parameters.push(inner);
    pushWindows(parameters, problem);
    parameters.push(allRows, rowsPerChunk, panels, panelWidth);
    const chunks = Math.ceil(allRows / rowsPerChunk) * panels;
    const overlap = Math.max(1, kernelHeight / strideY) * Math.max(1, kernelWidth / strideX);
    const nanoseconds = nanosecondsPerElement * allRows * width * inner * overlap;
    if (form === "rows") return [rows[kind][dtype].launchList(parameters, chunks, nanoseconds)];
    return [channels[kind][dtype].launchList(parameters, chunks, nanoseconds)];
  },
};
