import { floatTypes, type Pool2dKind, type Pool2dProblem, pool2dKinds } from "@backplane/core";
import { byFloatType } from "../elements/index.js";
import { pushWindows } from "../images/index.js";
import { address, type CpuMemory, type CpuOperation, type Kernel } from "../kernel.js";
import { type ChannelsTypes, channelsKernel } from "./channels.wasm.js";
import { panelSpan, type RowsTypes, rowsKernel } from "./rows.wasm.js";

type Problem = Pool2dProblem<CpuMemory>;

const rows: Readonly<Record<Pool2dKind, Readonly<Record<"f32" | "f16", Kernel<RowsTypes>>>>> = {
  max: byFloatType((dtype) => rowsKernel("max", dtype)),
  mean: byFloatType((dtype) => rowsKernel("mean", dtype)),
};

const channels: Readonly<Record<Pool2dKind, Readonly<Record<"f32" | "f16", Kernel<ChannelsTypes>>>>> = {
  max: byFloatType((dtype) => channelsKernel("max", dtype, false)),
  mean: byFloatType((dtype) => channelsKernel("mean", dtype, false)),
};

const places = byFloatType((dtype) => channelsKernel("max", dtype, true));

/** Elements that a chunk should read at least, roughly. */
const chunkElements = 1 << 15;

/** Of images with channels, which may be made two rows at a time: both in one chunk for most of them. */
const leastRows = 4;

/** Roughly, with one worker. */
const nanosecondsPerElement = 0.3;

/** How a problem is divided up: a function of its shape alone. */
export interface Pool2dPlan {
  readonly form: "rows" | "channels";
  readonly panelWidth: number;
  readonly panels: number;
  readonly rowsPerChunk: number;
}

export function planPool2d(problem: Omit<Problem, "input" | "output" | "dtype">): Pool2dPlan {
  const { inner, kernelWidth, dilationX, strideX, outWidth, kernelHeight, indices } = problem;
  const reach = dilationX * (kernelWidth - 1) + 1;
  const isRows = inner === 1 && indices === undefined && reach <= panelSpan / 2;
  // Elements of windows along a row: whole lines of the input, or what windows read one by one.
  const perColumn = isRows ? Math.min(strideX, reach) : kernelWidth * inner;
  const fitting = isRows ? Math.floor((panelSpan - reach) / strideX) + 1 : Number.POSITIVE_INFINITY;
  const wanted = Math.max(1, Math.floor(chunkElements / perColumn / kernelHeight));
  const panelWidth = Math.min(outWidth, fitting, isRows ? Math.max(wanted, panelSpan >> 4) : wanted);
  const elements = panelWidth * perColumn * kernelHeight;
  return {
    form: isRows ? "rows" : "channels",
    panelWidth,
    panels: Math.ceil(outWidth / panelWidth),
    rowsPerChunk: Math.max(isRows ? 1 : leastRows, Math.floor(chunkElements / elements)),
  };
}

export const pool2d: CpuOperation<Problem> = {
  supports: [{ dtype: floatTypes }],
  kernels: pool2dKinds
    .flatMap((kind): readonly (Kernel<RowsTypes> | Kernel<ChannelsTypes>)[] => [
      ...Object.values(rows[kind]),
      ...Object.values(channels[kind]),
    ])
    .concat(Object.values(places)),

  plan(problem) {
    const { dtype, kind, planes, inner, outHeight, outWidth, kernelHeight, kernelWidth, indices } = problem;
    const { form, panelWidth, panels, rowsPerChunk } = planPool2d(problem);
    const allRows = planes * outHeight;
    // In the order of `RowsTypes`, or of `ChannelsTypes`.
    const parameters = [address(problem.input), address(problem.output)];
    if (form === "channels") parameters.push(indices === undefined ? 0 : address(indices), inner);
    pushWindows(parameters, problem);
    parameters.push(allRows, rowsPerChunk, panels, panelWidth);
    const chunks = Math.ceil(allRows / rowsPerChunk) * panels;
    const nanoseconds = nanosecondsPerElement * allRows * outWidth * inner * kernelHeight * kernelWidth;
    if (form === "rows") return [rows[kind][dtype].launchList(parameters, chunks, nanoseconds)];
    const kernel = indices === undefined ? channels[kind][dtype] : places[dtype];
    return [kernel.launchList(parameters, chunks, nanoseconds)];
  },
};
